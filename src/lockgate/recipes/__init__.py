"""Ready-made experiments: presets ``(method, dataset) -> Experiment``, and one file per exhibit of the paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lockgate.config import Experiment
from lockgate.registry import Entry, Registry

if TYPE_CHECKING:
    from lockgate.recipes.exhibit import Exhibit

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

EXHIBITS: Registry[Exhibit] = Registry(
    "exhibit",
    {
        "task-incremental": Entry("lockgate.recipes.task_incremental:EXHIBIT", "Table 1: the task given."),
        "episodic": Entry("lockgate.recipes.episodic:EXHIBIT", "Figure 4: the task not given, by size of the buffer."),
        "generative": Entry("lockgate.recipes.generative:EXHIBIT", "Table 2: rehearsed from generated images."),
        "budget": Entry("lockgate.recipes.budget:EXHIBIT", "Figure 5: accuracy by what the memory costs."),
        "gates": Entry("lockgate.recipes.gates:EXHIBIT", "Figure 6: which gates fire for which task."),
        "macs": Entry("lockgate.recipes.macs:EXHIBIT", "Table 3: multiply-accumulates, HAT and ours."),
        "conditional": Entry("lockgate.recipes.conditional:EXHIBIT", "Supplement: generators of classes, C-Gen."),
        "confidence": Entry("lockgate.recipes.confidence:EXHIBIT", "Supplement: five seeds of HAT and ours."),
    },
)
