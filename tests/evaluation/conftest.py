"""A gated learner that has seen two tiny tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lockgate.config import DataConfig, Experiment, ModelConfig
from lockgate.engine.setup import build_learner, build_scenario, validated
from lockgate.methods.base import Learner
from lockgate.scenario import Scenario


@pytest.fixture
def learnt() -> Callable[..., tuple[Learner, Scenario]]:
    """``learnt(method, backbone, ...)``: every task begun and ended in turn; gates of gated methods are varied."""

    def make(
        method: str = "ccgn", backbone: str = "simple_cnn", width: int = 8, tasks: int = 2, **options: Any
    ) -> tuple[Learner, Scenario]:
        experiment = validated(
            Experiment(
                method=method,
                dataset="synthetic",
                backbone=backbone,
                tasks=tasks,
                data=DataConfig(synthetic_classes=2 * tasks, synthetic_per_class=20),
                model=ModelConfig(width=width, blocks=(1, 1)),
                options=options,
            )
        )
        scenario = build_scenario(experiment)
        torch.manual_seed(0)
        learner = build_learner(experiment, scenario.image_shape)
        for task in scenario.tasks:
            learner.begin_task(task)
            if method == "ccgn":
                vary_gates(learner, task.id)
            learner.end_task(task)
        return learner.eval(), scenario

    return make


@torch.no_grad()
def vary_gates(learner: Learner, task: int) -> None:
    """Some gates never fire, some always, some now and then."""
    for layer in learner.gated.values():
        excite = layer.gate(task).excite
        excite.weight.normal_(0, 2)
        excite.bias.copy_(torch.linspace(-4, 4, layer.width)[torch.randperm(layer.width)])
