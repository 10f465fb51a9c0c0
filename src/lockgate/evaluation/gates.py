"""How often each gate fires, by layer and task (paper, Section 4.5 and Figure 6)."""

from __future__ import annotations

from collections.abc import Sequence

from lockgate.methods.ccgn import CCGN
from lockgate.types import Task


def firing_probabilities(learner: CCGN, tasks: Sequence[Task]) -> dict[str, list[list[float]]]:
    """For each layer, one row per task: the share of its held-out images for which each gate of its stream fires."""
    rows = [learner.firing(task.val.x, task.id) for task in tasks]
    return {name: [row[i].tolist() for row in rows] for i, name in enumerate(learner.gated)}
