"""Lockgate: continual learning that provably forgets nothing.

Every name is imported when it is first asked for: ``import lockgate`` brings no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lockgate.version import __version__

if TYPE_CHECKING:
    from lockgate.api import audit, load, make_method, resume, run
    from lockgate.app.classifier import ContinualClassifier
    from lockgate.app.result import Result
    from lockgate.backbones.base import Backbone
    from lockgate.backbones.foreign import gate
    from lockgate.config import Experiment
    from lockgate.layers.gated import GatedConv2d, GatedLinear
    from lockgate.methods.base import Method
    from lockgate.plugins import register_backbone, register_dataset, register_method
    from lockgate.runs.train_task import train_task
    from lockgate.scenario.arrays import split_tasks
    from lockgate.training.callbacks import Callback

_HOME = {
    "ContinualClassifier": "lockgate.app.classifier",
    "Experiment": "lockgate.config",
    "Result": "lockgate.app.result",
    "run": "lockgate.api",
    "resume": "lockgate.api",
    "load": "lockgate.api",
    "audit": "lockgate.api",
    "make_method": "lockgate.api",
    "split_tasks": "lockgate.scenario.arrays",
    "train_task": "lockgate.runs.train_task",
    "Callback": "lockgate.training.callbacks",
    "Method": "lockgate.methods.base",
    "Backbone": "lockgate.backbones.base",
    "gate": "lockgate.backbones.foreign",
    "GatedConv2d": "lockgate.layers.gated",
    "GatedLinear": "lockgate.layers.gated",
    "register_method": "lockgate.plugins",
    "register_dataset": "lockgate.plugins",
    "register_backbone": "lockgate.plugins",
}
"""The module of every public name."""

__all__ = [
    "Backbone",
    "Callback",
    "ContinualClassifier",
    "Experiment",
    "GatedConv2d",
    "GatedLinear",
    "Method",
    "Result",
    "__version__",
    "audit",
    "gate",
    "load",
    "make_method",
    "register_backbone",
    "register_dataset",
    "register_method",
    "resume",
    "run",
    "split_tasks",
    "train_task",
]


def __getattr__(name: str) -> Any:
    """A public name, imported now."""
    if name not in _HOME:
        raise AttributeError(f"module 'lockgate' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
