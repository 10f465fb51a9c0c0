"""A gated learner that has seen two tiny tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support import tiny

from lockgate.methods.base import Method
from lockgate.scenario import Scenario


@pytest.fixture
def learnt() -> Callable[..., tuple[Method, Scenario]]:
    """``learnt(method, backbone, ...)``: every task begun and ended in turn; gates of gated methods are varied."""

    def make(
        method: str = "ccgn", backbone: str = "simple_cnn", width: int = 8, tasks: int = 2, **options: Any
    ) -> tuple[Method, Scenario]:
        learner, scenario = tiny.world(method, backbone, width, tasks, **options)
        for task in scenario.tasks:
            learner.begin_task(task)
            if method == "ccgn":
                tiny.vary_gates(learner, task.id)
            learner.end_task(task)
        return learner.eval(), scenario

    return make
