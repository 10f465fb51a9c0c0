"""A tiny real world for tests of methods: synthetic images, a narrow network."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.support import tiny

from lockgate.methods.base import Method
from lockgate.scenario import Scenario
from lockgate.types import Batch, Task


@pytest.fixture
def world() -> Callable[..., tuple[Method, Scenario]]:
    """``world(method, backbone, width=..., **options)`` gives a learner that has seen nothing, and its tasks."""
    return tiny.world


@pytest.fixture
def stir() -> Callable[[Method, int], None]:
    """Make the gates of a task depend on the image: some never fire, some always, some now and then."""

    def stir_gates(learner: Method, task: int) -> None:
        torch.manual_seed(100 + task)
        tiny.vary_gates(learner, task)

    return stir_gates


@pytest.fixture
def train() -> Callable[..., None]:
    """A few steps on a task, in the engine's order."""

    def steps(
        learner: Method, task: Task, optimiser: torch.optim.Optimizer | None = None, count: int = 3, clip: float = 1.0
    ) -> None:
        if optimiser is None:
            optimiser = torch.optim.AdamW(learner.parameter_groups(0.05), weight_decay=0.1)
        learner.train()
        for _ in range(count):
            losses = learner(Batch(task.train.x, task.train.y, task.train.task))
            optimiser.zero_grad()
            torch.stack(list(losses.values())).sum().backward()
            learner.after_backward()
            torch.nn.utils.clip_grad_norm_(learner.parameters(), clip)
            learner.before_step()
            optimiser.step()
            learner.after_step()

    return steps
