"""BatchNorm, shared or per task.

Shared BatchNorm is the classic hole through which a "frozen" network forgets: statistics and affine parameters move
with every later task. Gated networks keep one BatchNorm per task.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.layers.per_task import TaskModules


class BatchNorm2d(nn.BatchNorm2d):
    """``nn.BatchNorm2d`` that also trains on a single pixel (a batch of one, 1x1), by its running statistics."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (B, C, H, W)."""
        if self.training and input.numel() == input.shape[1]:
            return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(input)


class SharedNorm(BatchNorm2d):
    """One BatchNorm for all tasks."""

    def add_task(self) -> None:
        """Nothing here belongs to a task."""

    def forward(self, x: Tensor, task: int) -> Tensor:  # type: ignore[override]
        """Normalise (B, C, H, W)."""
        return super().forward(x)


class TaskNorm(nn.Module):
    """One BatchNorm per task, affine parameters and statistics, as wide as the layer when its task began."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.norms = TaskModules()
        self.reads: dict[int, Tensor] = {}
        """For each task's stream, the channels it holds, as an index; a task that is not there holds all."""

    def _apply(self, fn: Any, recurse: bool = True) -> TaskNorm:
        """Moving to another device: the channels that streams hold move too."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.reads = {t: fn(index) for t, index in self.reads.items()}
        return self

    def add_task(self) -> None:
        """A BatchNorm for one more task."""
        self.norms.append(BatchNorm2d(self.channels))
        self.norms.freeze_past()

    def forward(self, x: Tensor, task: int) -> Tensor:
        """Normalise (B, C, H, W) by the statistics of ``task``."""
        norm = cast(BatchNorm2d, self.norms[task])
        return norm(x) if task not in self.reads else _normalise_some(norm, x, self.reads[task])

    @torch.no_grad()
    def forget_shut(self, task: int) -> None:
        """Zero what the norm of ``task`` holds of channels that its stream has not: nothing ever reads it."""
        if task in self.reads:
            norm = cast(BatchNorm2d, self.norms[task])
            shut = torch.ones_like(norm.weight, dtype=torch.bool).index_fill(0, self.reads[task], False)
            for held in norm.state_dict().values():
                if held.dim():  # one is a number of batches
                    held[shut] = 0


def _normalise_some(norm: BatchNorm2d, x: Tensor, index: Tensor) -> Tensor:
    """``norm`` on a part of its channels: x (B, len(index), H, W)."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.momentum is not None
    mean, variance = norm.running_mean[index], norm.running_var[index]
    training = norm.training and x.numel() > x.shape[1]
    out = F.batch_norm(x, mean, variance, norm.weight[index], norm.bias[index], training, norm.momentum, norm.eps)
    if training:
        norm.running_mean.index_copy_(0, index, mean)
        norm.running_var.index_copy_(0, index, variance)
    return out
