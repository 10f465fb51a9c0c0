"""Ready-made experiments: functions ``(method, dataset) -> Experiment`` that return complete configs."""

from __future__ import annotations

from collections.abc import Callable

from lockgate.config import Experiment
from lockgate.registry import Entry, Registry

Recipe = Callable[[str, str], Experiment]

RECIPES: Registry[Recipe] = Registry(
    "recipe",
    {
        "short": Entry(
            "lockgate.recipes.presets:short",
            "A few epochs a task, for CPUs; keeps free capacity for all tasks (default).",
        ),
        "paper": Entry(
            "lockgate.recipes.presets:paper", "The paper's table of hyperparameters, to the letter, for GPUs."
        ),
    },
)
