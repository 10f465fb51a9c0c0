"""What a task classifier is rehearsed on: images of all tasks, with what past streams make of them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from lockgate.types import Examples


class Pool(NamedTuple):
    """Images to rehearse on, with what past streams make of them."""

    x: Tensor  # (N, C, H, W) uint8, ordered by task
    y: Tensor  # (N,) int64, label within its task; -1: generated, it has none
    task: Tensor  # (N,) int64
    target: Tensor  # (N,) int64, output of the task classifier; -1: not known yet
    nameless: bool  # whether some targets are not known yet
    past: Tensor  # (N, P), features of past streams at the channels they can open
    starts: Tensor  # (tasks,), the first image of each task
    sizes: Tensor  # (tasks,), images of each task

    @classmethod
    def of(cls, x: Tensor, drawn: Examples, target: Tensor, past: Tensor, tasks: int) -> Pool:
        """Of the images ``drawn``, as they are to be seen (``x``), on the device of ``past``."""
        sizes = torch.bincount(drawn.task, minlength=tasks)
        nameless = bool((target < 0).any())
        x, y, task, target = (part.to(past.device) for part in (x, drawn.y, drawn.task, target))
        return cls(x, y, task, target, nameless, past, sizes.cumsum(0) - sizes, sizes)

    def rows(self, count: int, at_random: bool) -> Tensor:
        """Rows of a rehearsal batch: tasks in turn, images at random; or else always the same rows."""
        held = torch.nonzero(self.sizes).flatten()  # a tiny buffer holds nothing of some tasks
        turn, luck = torch.zeros(()), torch.arange(count) / count
        if at_random:
            turn, luck = torch.randint(len(held), ()), torch.rand(count)
        task = held[(torch.arange(count) + turn.long()) % len(held)]
        return self.starts[task] + (luck * self.sizes[task]).long().clamp(max=self.sizes[task] - 1)
