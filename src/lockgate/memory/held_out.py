"""Episodic memory of images that were held out of training, as far as there are any.

A network is surer of images that it was trained on than of others of their kind. What is fitted to what it makes of
stored images, and what is chosen by it, is right for other images only if the stored ones were not trained on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lockgate.memory.episodic import EpisodicMemory, shares
from lockgate.types import Batch, Task


class HeldOutMemory(EpisodicMemory):
    """C / t images of each task, of each class as many as of any other: held-out ones first, then training images.

    They are stored in the order in which they were drawn. When the share of a task shrinks, the last of each class go.
    """

    def available(self, task: Task) -> int:
        """All images but those for testing."""
        return len(task.val) + len(task.train)

    def drawn(self, task: Task, count: int, rng: torch.Generator) -> Batch:
        """Of each class the first images of a random order in which those held out are before the others."""
        held = len(task.val)
        order = torch.cat([torch.randperm(n, generator=rng) + n0 for n, n0 in ((held, 0), (len(task.train), held))])
        some = order[self.chosen(torch.cat([task.val.y, task.train.y])[order], count, rng)]
        parts = [task.val.batch(some[some < held]), task.train.batch(some[some >= held] - held)]
        return Batch(*(torch.cat(values) for values in zip(*parts, strict=True)))

    def chosen(self, y: Tensor, count: int, rng: torch.Generator) -> Tensor:
        """Which ``count`` of the images of a task, of labels ``y`` (N,), it keeps: the first of each class.

        What is left over by division goes to the first classes, one each.
        """
        of_class = [torch.nonzero(y == label).flatten() for label in torch.unique(y)]
        sizes = shares([len(index) for index in of_class], count)
        first = [index[:size] for index, size in zip(of_class, sizes, strict=True)]
        return torch.cat([*first, torch.empty(0, dtype=torch.int64)]).sort().values
