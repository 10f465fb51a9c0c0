"""Tiny learners that have learnt two or three tasks, made once a session."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.support import tiny

from lockgate.methods.base import Method
from lockgate.testing import walk
from lockgate.types import Task


@functools.cache
def _learnt(method: str, backbone: str, options: tuple[tuple[str, Any], ...]) -> tuple[Method, tuple[Task, ...]]:
    data = {"synthetic_classes": 6, "synthetic_per_class": 20}
    experiment = tiny.experiment(method, backbone, tasks=3, data=data, options=dict(options))
    torch.manual_seed(0)
    *_, (learner, seen) = walk(experiment)
    return learner.eval(), tuple(seen)


@pytest.fixture
def learnt() -> Callable[..., tuple[Method, tuple[Task, ...]]]:
    """A learner after three tasks of two classes, and the tasks. Nobody changes it."""

    def make(method: str, backbone: str = "simple_cnn", **options: Any) -> tuple[Method, tuple[Task, ...]]:
        return _learnt(method, backbone, tuple(options.items()))

    return make
