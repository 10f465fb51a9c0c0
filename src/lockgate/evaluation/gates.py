"""How often each gate fires, by layer and task, and on what (paper, Section 4.5 and Figure 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.methods.base import Method
from lockgate.methods.ccgn.consolidation import relevance
from lockgate.methods.protocols import HasGates
from lockgate.training.phase import evaluating
from lockgate.types import Task

Firing = dict[str, list[list[float]]]

SHOWN = 8
"""Images of each kind in a strip."""
LOOKED_AT = 512
"""Test images of each task among which they are looked for."""


@torch.no_grad()
def open_gates(learner: Method, x: Tensor, task: int) -> dict[str, list[int]]:
    """For one image ``x`` (1, C, H, W) uint8, each layer's gates in ``task``'s stream: 1 open, 0 shut; {} if none."""
    if not isinstance(learner, HasGates):
        return {}
    learner.eval()
    gates = learner.backbone(learner.input(x.to(learner.input.mean.device)), task).gates
    return {name: gate[0].int().tolist() for name, gate in zip(learner.gated, gates, strict=True)}


def firing_probabilities(learner: Any, tasks: Sequence[Task]) -> Firing:
    """For each layer, one row per task: the share of its held-out images for which each gate of its stream fires."""
    rows = [relevance(learner, task.val.x, task.id) for task in tasks]
    width = {name: layer.width for name, layer in learner.gated.items()}
    return {
        name: [F.pad(row[i], (0, width[name] - len(row[i]))).tolist() for row in rows]  # layers may have grown since
        for i, name in enumerate(learner.gated)
    }


def shares(firing: Mapping[str, Sequence[Sequence[float]]]) -> tuple[float, float]:
    """Of all gates, the share that ever fires, and the share that fires for more than one task: features re-used."""
    fires = [torch.tensor(rows) > 0 for rows in firing.values()]  # (tasks, width) each
    total = sum(layer.shape[1] for layer in fires)
    ever = sum(int(layer.any(0).sum()) for layer in fires)
    shared = sum(int((layer.sum(0) > 1).sum()) for layer in fires)
    return ever / total, shared / total


@dataclass(frozen=True)
class Strips:
    """Images of every task that trigger one gate (left) and that do not (right)."""

    gate: int
    picture: Tensor  # (C, tasks * H, 2 * SHOWN * W + gap) uint8


def strips(learner: Any, tasks: Sequence[Task], layer: str) -> Strips:
    """A row for each task: test images for which a gate of ``layer`` fires, a gap, and images for which it does not.

    The gate is the one that decides most evenly: the share of images it fires for is closest to one half, in the
    mean over tasks.
    """
    index = list(learner.gated).index(layer)
    images = [task.test.x[:LOOKED_AT] for task in tasks]
    fires = [_fires(learner, x, task.id, index) for x, task in zip(images, tasks, strict=True)]
    width = min(f.shape[1] for f in fires)  # gates that every task has
    undecided = torch.stack([(f[:, :width].double().mean(0) - 0.5).abs() for f in fires]).mean(0)
    gate = int(undecided.argmin())
    rows = [
        torch.cat(
            [_strip(x, f[:, gate]), x.new_full((x.shape[1], x.shape[2], x.shape[3] // 2), 255), _strip(x, ~f[:, gate])],
            dim=2,
        )
        for x, f in zip(images, fires, strict=True)
    ]
    return Strips(gate, torch.cat(rows, dim=1))


@torch.no_grad()
def _fires(learner: Any, x: Tensor, task: int, index: int) -> Tensor:
    """Which gates of a layer fire for each image, (N, c_out) bool."""
    with evaluating(learner):
        gates = learner.backbone(learner.input(x.to(learner.input.mean.device)), task).gates
    fires: Tensor = gates[index].bool().cpu()
    return fires


def _strip(x: Tensor, chosen: Tensor) -> Tensor:
    """The first few chosen images side by side (C, H, SHOWN * W); white where there are not so many."""
    some = x[chosen][:SHOWN]
    blank = x.new_full((SHOWN - len(some), *x.shape[1:]), 255)
    return torch.cat(list(torch.cat([some, blank])), dim=2)
