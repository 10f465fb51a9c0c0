"""Towards a task's end gates may settle: no noise, no sparsity objective."""

from __future__ import annotations

import torch

import tiny
from lockgate.engine.setup import build_learner, build_scenario
from lockgate.types import Batch


def learner_and_batch(**options):
    experiment = tiny.experiment("ccgn", options={"patience": 0, **options})
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


def test_before_settling_gates_are_noisy_and_sparsity_counts():
    learner, batch = learner_and_batch(settle=0.4)
    one, two = losses_at(learner, batch, 0.59, 1), losses_at(learner, batch, 0.59, 2)
    assert "sparsity" in one
    assert one["class"] != two["class"]


def test_while_settling_gates_are_deterministic_and_sparsity_rests():
    learner, batch = learner_and_batch(settle=0.4)
    one, two = losses_at(learner, batch, 0.61, 1), losses_at(learner, batch, 0.61, 2)
    assert "sparsity" not in one
    assert one["class"] == two["class"]


def test_without_the_option_nothing_settles():
    learner, batch = learner_and_batch(settle=0.0)
    one, two = losses_at(learner, batch, 0.999, 1), losses_at(learner, batch, 0.999, 2)
    assert "sparsity" in one
    assert one["class"] != two["class"]
