"""Episodic memory in which the classes of a task have equal shares of what the task keeps."""

from __future__ import annotations

import torch
from torch import Tensor

from lockgate.memory.episodic import EpisodicMemory, shares


class BalancedMemory(EpisodicMemory):
    """C / t images of each task, as episodic; of each class of a task as many as of any other, as far as there are."""

    def chosen(self, y: Tensor, count: int, rng: torch.Generator) -> Tensor:
        """Which ``count`` of the images of a task, of labels ``y`` (N,), it keeps, in their order: any of each class.

        What is left over by division goes to the first classes, one each.
        """
        of_class = [torch.nonzero(y == label).flatten() for label in torch.unique(y)]
        sizes = shares([len(index) for index in of_class], count)
        some = [
            index[torch.randperm(len(index), generator=rng)[:size]] for index, size in zip(of_class, sizes, strict=True)
        ]
        return torch.cat([*some, torch.empty(0, dtype=torch.int64)]).sort().values
