"""Full replay: every image of the past is kept and trained on again. The class-incremental upper bound."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import accumulate

import torch

from lockgate.memory.episodic import EpisodicMemory
from lockgate.methods.base import Context
from lockgate.methods.single_head import SingleHead
from lockgate.types import Examples, Task


class FullReplay(SingleHead):
    """Task t trains on the union of tasks 0 .. t."""

    memory: EpisodicMemory

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.memory = EpisodicMemory(sys.maxsize)

    def begin_task(self, task: Task) -> Examples:
        """Outputs for the task; to train on: everything seen so far."""
        return self.memory.all(super().begin_task(task))

    def end_task(self, task: Task) -> None:
        """Keep the whole task."""
        self.memory.end_task(task, torch.Generator())  # all is kept: there is nothing to draw

    def stage_steps(self, images: Sequence[int], planned: Callable[[int], int]) -> list[int]:
        """On all images up to each task."""
        return super().stage_steps(list(accumulate(images)), planned)
