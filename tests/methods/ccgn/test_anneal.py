"""Towards a task's end gates may anneal: no noise, no sparsity objective, statistics held."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny

from lockgate.methods.ccgn.gating import stream_norms
from lockgate.runs.build import build_learner, build_scenario
from lockgate.types import Batch


def learner_and_batch(backbone="simple_cnn", **options):
    experiment = tiny.experiment("ccgn", backbone, options={"sparsity_warmup": 0, **options})
    scenario = build_scenario(experiment)
    torch.manual_seed(0)
    learner = build_learner(experiment, scenario.image_shape)
    learner.begin_task(scenario.tasks[0])
    train = scenario.tasks[0].train
    return learner.train(), Batch(train.x[:16], train.y[:16], train.task[:16])


def losses_at(learner, batch, progress, seed):
    learner.progress = progress
    torch.manual_seed(seed)
    return learner(batch)


def test_before_annealing_gates_are_noisy_and_sparsity_counts():
    learner, batch = learner_and_batch(anneal=0.4)
    one, two = losses_at(learner, batch, 0.59, 1), losses_at(learner, batch, 0.59, 2)
    assert "sparsity" in one
    assert one["class"] != two["class"]


def test_while_annealing_gates_are_deterministic_and_sparsity_rests():
    learner, batch = learner_and_batch(anneal=0.4)
    one, two = losses_at(learner, batch, 0.61, 1), losses_at(learner, batch, 0.61, 2)
    assert "sparsity" not in one
    assert one["class"] == two["class"]


@pytest.mark.parametrize("backbone", tiny.BACKBONES)
def test_while_annealing_training_is_what_evaluation_will_be(backbone):
    """No statistic moves, and the class loss is that of evaluation; before, statistics move."""
    learner, batch = learner_and_batch(backbone, anneal=0.4, prune=0.0)
    held = {name: value.clone() for name, value in learner.backbone.named_buffers() if "running" in name}
    assert held
    annealed = losses_at(learner, batch, 0.61, 1)["class"]
    assert all(torch.equal(value, held[name]) for name, value in learner.backbone.named_buffers() if name in held)
    assert all(norm.training for norm in stream_norms(learner.backbone, 0))
    torch.testing.assert_close(annealed, learner.eval()(batch)["class"])
    losses_at(learner.train(), batch, 0.59, 1)
    assert not any(torch.equal(value, held[name]) for name, value in learner.backbone.named_buffers() if name in held)


def test_without_the_option_nothing_anneals():
    learner, batch = learner_and_batch(anneal=0.0)
    one, two = losses_at(learner, batch, 0.999, 1), losses_at(learner, batch, 0.999, 2)
    assert "sparsity" in one
    assert one["class"] != two["class"]
