"""Multiply-accumulates per image, as really needed: open inputs times open outputs, gate networks included.

The paper's own counts are beside them. For SimpleCNN it leaves out the number of input channels (926,100 instead of
22,755,600 for the dense network); for ResNet-18 it counts all of it. Heads and BatchNorm are not counted, as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lockgate.backbones.foreign import ForeignBackbone
from lockgate.evaluation.given_macs import given_macs
from lockgate.layers.cost import per_pair
from lockgate.layers.gated import Gated
from lockgate.methods.base import Method
from lockgate.methods.protocols import FindsTask
from lockgate.training.phase import eval_batch
from lockgate.types import Task


@dataclass(frozen=True)
class LayerMacs:
    """Counts of one layer, each summed over images."""

    name: str
    dense: int
    dense_paper: int
    open: float
    open_paper: float
    gates: float


def layer_macs(learner: Method, x: Tensor, task: int) -> list[LayerMacs]:
    """Counts of every layer for images ``x`` (N, C, H, W) uint8 through ``task``'s stream, summed over the images."""
    calls: list[tuple[Tensor, Any]] = []  # (input, gate) of every layer, in order
    layers = learner.backbone.layers
    handles = [
        layer.register_forward_hook(lambda _, inputs, output: calls.append((inputs[0], output[1])))
        for layer in layers.values()
    ]
    try:
        with torch.no_grad():
            learner.eval()
            learner.backbone(learner.input(x.to(learner.input.mean.device)), task)
    finally:
        for handle in handles:
            handle.remove()
    return [
        _count(name, layer, *calls[i], None if source is None else calls[source][1], task)
        for i, ((name, layer), source) in enumerate(zip(layers.items(), learner.backbone.sources, strict=True))
    ]


def _count(name: str, layer: Any, x: Tensor, gate: Tensor | None, source: Tensor | None, task: int) -> LayerMacs:
    images = len(x)
    c_out = layer.width if gate is None else gate.shape[1]
    c_in = layer.gate(task).squeeze.in_features if isinstance(layer, Gated) else x.shape[1]  # x may hold open ones only
    pair = per_pair(layer, x)
    open_in = torch.full((images,), c_in, dtype=torch.float64) if source is None else source.sum(1).cpu().double()
    open_out = torch.full((images,), c_out, dtype=torch.float64) if gate is None else gate.sum(1).cpu().double()
    gates = 0.0
    if isinstance(layer, Gated):
        network = layer.gate(task)
        gates = float((open_in * network.squeeze.out_features).sum())
        gates += images * network.squeeze.out_features * int(network.seal.sum())
    return LayerMacs(
        name,
        dense=images * pair * c_in * c_out,
        dense_paper=images * pair * c_out,
        open=float((open_in * open_out).sum()) * pair,
        open_paper=float(open_out.sum()) * pair,
        gates=gates,
    )


def task_macs(learner: Method, x: Tensor, task: int) -> dict[str, float]:
    """Mean counts per image over images ``x``: dense and open, true and in the paper's counting, and of the gates."""
    if isinstance(learner.backbone, ForeignBackbone):
        return given_macs(learner.backbone, learner.image_shape, task)
    sums: dict[str, float] = {}
    for part in torch.split(x, eval_batch(x.shape)):
        for layer in layer_macs(learner, part, task):
            for key in ("dense", "dense_paper", "open", "open_paper", "gates"):
                sums[key] = sums.get(key, 0.0) + getattr(layer, key)
    return {key: value / len(x) for key, value in sums.items()}


def stage_macs(learner: Method, tasks: Sequence[Task], known: Sequence[dict[str, float]] = ()) -> dict[str, Any] | None:
    """Mean counts on the test sets of all tasks seen so far, the task given; None where nothing is gated or given.

    Counts of the first tasks may be ``known``.
    """
    gated = any(isinstance(layer, Gated) for layer in learner.backbone.layers.values())
    if not gated and not isinstance(learner.backbone, ForeignBackbone):
        return None
    tested = [task for i, task in enumerate(tasks) if i < len(known) or len(task.test)]
    by_task = [*known, *(task_macs(learner, task.test.x, task.id) for task in tested[len(known) :])]
    images = [len(task.test) for task in tested]

    def mean(*keys: str) -> float:
        return sum(sum(macs[k] for k in keys) * n for macs, n in zip(by_task, images, strict=True)) / sum(images)

    return {
        "dense": by_task[0]["dense"],
        "dense_paper": by_task[0]["dense_paper"],
        "mean": mean("open", "gates"),
        "mean_paper": mean("open_paper"),
        "by_task": by_task,
    }


def macs_by_stage(learner: Method, tasks: Sequence[Task]) -> dict[str, list[float]]:
    """Mean counts after each task, on the test images of all tasks up to it, from the model as it is at the end.

    Past streams do not change, so what they cost at an earlier stage can be counted now. With the task given an image
    runs through one stream, without it through every stream there was, and what finds the task.
    """
    counts = [[task_macs(learner, task.test.x, stream.id) for task in tasks] for stream in tasks]
    sizes = [len(task.test) for task in tasks]
    found: dict[str, list[float]] = {}
    for suffix, keys in (("", ("open", "gates")), ("_paper", ("open_paper",))):
        cost = [[sum(cell[k] for k in keys) for cell in row] for row in counts]  # by stream and task
        own = [cost[i][i] for i in range(len(tasks))]
        found[f"task_incremental{suffix}"] = [_mean(own[:n], sizes) for n in range(1, len(tasks) + 1)]
        if isinstance(learner, FindsTask):
            finder = [paper if suffix else true for true, paper in learner.finder_macs]
            found[f"class_incremental{suffix}"] = [
                _mean([sum(row[i] for row in cost[:n]) for i in range(n)], sizes) + finder[n - 1]
                for n in range(1, len(tasks) + 1)
            ]
    return found


def _mean(values: Sequence[float], weights: Sequence[int]) -> float:
    """Mean of ``values``, weighted by as many of ``weights``."""
    used = weights[: len(values)]
    return sum(v * w for v, w in zip(values, used, strict=True)) / sum(used)
