"""How often each gate fires, by layer and task (paper, Section 4.5 and Figure 6)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lockgate.methods.base import Learner
from lockgate.methods.ccgn import CCGN
from lockgate.types import Task


@torch.no_grad()
def open_gates(learner: Learner, x: Tensor, task: int) -> dict[str, list[int]]:
    """For one image ``x`` (1, C, H, W) uint8, each layer's gates in ``task``'s stream: 1 open, 0 shut; {} if none."""
    if not isinstance(learner, CCGN):
        return {}
    learner.eval()
    gates = learner.backbone(learner.input(x.to(learner.input.mean.device)), task).gates
    return {name: gate[0].int().tolist() for name, gate in zip(learner.gated, gates, strict=True)}


def firing_probabilities(learner: CCGN, tasks: Sequence[Task]) -> dict[str, list[list[float]]]:
    """For each layer, one row per task: the share of its held-out images for which each gate of its stream fires."""
    rows = [learner.firing(task.val.x, task.id) for task in tasks]
    return {name: [row[i].tolist() for row in rows] for i, name in enumerate(learner.gated)}
