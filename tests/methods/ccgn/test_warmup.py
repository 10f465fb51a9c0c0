"""When sparsity takes part, and how much of it, worked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from lockgate.methods.ccgn.options import CCGNOptions
from lockgate.methods.ccgn.warmup import (
    Warmup,
    below_chance,
    is_annealing,
    narrowing,
    sparsity_share,
    warmup_epochs,
)


@pytest.mark.parametrize(
    ("anneal", "progress", "annealing"),
    [(0.0, 0.0, False), (0.0, 0.999, False), (0.25, 0.74, False), (0.25, 0.75, True), (0.25, 0.9, True)],
)
def test_annealing_is_the_last_share_of_a_task(anneal, progress, annealing):
    assert is_annealing(CCGNOptions(anneal=anneal), progress) is annealing


@pytest.mark.parametrize(
    ("warmup", "of", "epochs"), [(0, 10, 0), (7, 10, 7), ("loss", 1, 1), ("loss", 5, 1), ("loss", 60, 12)]
)
def test_epochs_before_sparsity_sets_in(warmup, of, epochs):
    assert warmup_epochs(CCGNOptions(sparsity_warmup=warmup), of) == epochs


@pytest.mark.parametrize(
    ("layers", "down"),
    [
        # 1,000 steps, 500 until the budget is held
        (1, {0: 0.0, 300: 0.0, 400: 0.5, 450: 0.75, 500: 1.0, 999: 1.0}),  # 0.6 of them are waited for
        (10, {0: 0.0, 100: 0.0, 300: 0.5, 499: 399 / 400, 500: 1.0}),  # forty for each layer
        (13, {0: 1.0, 250: 1.0, 500: 1.0}),  # too few
    ],
)
def test_the_room_comes_down_until_annealing_begins(layers, down):
    options = CCGNOptions(anneal=0.5)
    assert {step: pytest.approx(narrowing(options, step, 100, 10, layers)) for step in down} == down


def test_without_annealing_it_is_down_before_the_last_epoch():
    assert narrowing(CCGNOptions(), 899, 100, 10, 1) < 1.0
    assert narrowing(CCGNOptions(), 900, 100, 10, 1) == 1.0


def test_sparsity_waits_for_the_loss_but_no_longer_than_the_room_does():
    warmup = Warmup(CCGNOptions(sparsity_warmup="loss"))
    warmup.begin_task()
    assert not warmup.over(5, 10)
    assert warmup.over(5, 10, narrowing=0.01)
    assert warmup.quiet, "gates are without noise all the same"
    assert not warmup.over(1, 10, narrowing=1.0), "nor does it begin at once"


def share(loss, warmup, training):
    options = CCGNOptions(sparsity_warmup=warmup)
    return sparsity_share(options, torch.tensor(loss), 4, training)


@pytest.mark.parametrize("training", [True, False])
def test_a_number_of_epochs_is_all_or_nothing_whatever_the_loss(training):
    for loss in (0.0, 9.0):
        assert share(loss, 2, training) == 1


def test_by_the_loss_it_grows_as_the_loss_falls_below_chance_and_held_out_data_are_judged_by_the_whole():
    half = math.log(4) / 2
    assert share(half, "loss", training=True) == pytest.approx(0.5)
    assert share(half, "loss", training=False) == 1


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_below_chance_is_one_at_no_loss_and_zero_from_guessing_on(classes):
    chance = math.log(classes)
    for share, wanted in ((0.0, 1.0), (0.25, 0.75), (1.0, 0.0), (3.0, 0.0)):
        found = below_chance(torch.tensor(share * chance, requires_grad=True), classes)
        assert found.item() == pytest.approx(wanted, abs=1e-6)
        assert not found.requires_grad


def test_a_task_of_one_class_has_nothing_to_learn():
    assert below_chance(torch.tensor(0.3), 1).item() == 1.0
