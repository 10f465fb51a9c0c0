"""Ready-made experiments: presets ``(method, dataset) -> Experiment``."""

from __future__ import annotations

from collections.abc import Callable

from lockgate.config import Experiment
from lockgate.registry import Entry, Registry

Preset = Callable[[str, str], Experiment]

PRESETS: Registry[Preset] = Registry(
    "preset",
    {
        "short": Entry(
            "lockgate.presets.tables:short",
            "A few epochs a task, for CPUs; keeps free capacity for all tasks (default).",
        ),
        "paper": Entry(
            "lockgate.presets.tables:paper", "The paper's table of hyperparameters, to the letter, for GPUs."
        ),
    },
)
