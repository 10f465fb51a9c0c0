"""The task classifier (paper, Section 3.3): an MLP with 64 ReLU units on the features of all streams, Eq. 7:

h = concatenation over tasks i = 1 .. t of mu(h_i),   mu: global average pooling of stream i's last feature map
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.layers.init import Linear, draws

HIDDEN = 64


class TaskClassifier(nn.Module):
    """Grows by one stream and some outputs a task, and keeps the weights and biases it had."""

    def __init__(self, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.hidden = hidden
        self.squeeze: nn.Linear  # (all streams' features, hidden)
        self.out: nn.Linear  # (hidden, all tasks' outputs)
        self.inputs: list[int] = []
        """Width of each stream's features."""
        self.outputs: list[int] = []
        """Outputs of each task: one, or one per class."""

    def add_task(self, features: int, outputs: int) -> None:
        """Inputs for one more stream, outputs for one more task."""
        self.inputs.append(features)
        self.outputs.append(outputs)
        squeeze, out = Linear(sum(self.inputs), self.hidden), Linear(self.hidden, sum(self.outputs))
        first = len(self.inputs) == 1
        self.squeeze = squeeze if first else _grown(self.squeeze, squeeze)
        self.out = out if first else _grown(self.out, out)

    def forward(self, past: Tensor, columns: Tensor, current: Tensor) -> Tensor:
        """Outputs (B, sum of outputs) on h of Eq. 7, from features of past streams (B, P) and of the newest (B, F).

        Of the past, only channels that can open are given: ``columns`` (P,) says which entries of h they are. The
        others are zero, so the first layer's product is a sum of two.
        """
        newest = self.squeeze.weight[:, sum(self.inputs[:-1]) :]
        hidden = F.linear(current, newest, self.squeeze.bias)
        hidden = hidden + F.linear(past, self.squeeze.weight.index_select(1, columns))
        out: Tensor = self.out(F.relu(hidden))
        return out

    @property
    def macs(self) -> list[int]:
        """Multiply-accumulates of an image when there were 1, 2, ... tasks."""
        tasks = range(1, len(self.inputs) + 1)
        return [self.hidden * (sum(self.inputs[:t]) + sum(self.outputs[:t])) for t in tasks]

    def by_task(self, outputs: Tensor) -> Tensor:
        """log p(t|x), (B, tasks), from the outputs."""
        return by_task(outputs, self.outputs)


def for_classes(tasks: Tensor, sizes: list[int]) -> Tensor:
    """What is said about tasks, (B, tasks), for each of their ``sizes`` classes, (B, classes)."""
    task = [t for t, size in enumerate(sizes) for _ in range(size)]
    return tasks.index_select(1, torch.tensor(task, device=tasks.device))


def by_task(outputs: Tensor, sizes: list[int]) -> Tensor:
    """log p(t|x), (B, tasks), from outputs of which each task has so many."""
    parts = torch.split(outputs.log_softmax(1), sizes, dim=1)
    return torch.stack([part.logsumexp(1) for part in parts], dim=1)


def _grown(old: nn.Linear, new: nn.Linear) -> nn.Linear:
    """``new``, with the values of ``old`` where it had any; not if all are about to be loaded."""
    if not draws():
        return new
    with torch.no_grad():
        new.weight[: old.out_features, : old.in_features] = old.weight
        new.bias[: old.out_features] = old.bias
    return new
