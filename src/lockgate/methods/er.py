"""Experience replay (Chaudhry et al., On Tiny Episodic Memories in Continual Learning, 2019; Riemer et al. 2019).

each step:   B a batch of the task, M a random batch of the memory, as large:
             mean over B and M together of  - log p(y | x),  p the softmax over all classes seen
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from lockgate.config import option
from lockgate.memory.balanced import BalancedMemory
from lockgate.methods.base import Context
from lockgate.methods.single_head import SingleHead
from lockgate.training.augment import augment
from lockgate.training.seeding import spawn
from lockgate.types import Batch, Losses, Task


@dataclass(frozen=True)
class EROptions:
    """Options of er and er-ace."""

    buffer: int = option(2000, "Images kept in all, shared equally by the tasks seen so far.", ge=1)


class ER(SingleHead):
    """Cross-entropy among all classes seen, on the task's images and on kept ones of past tasks."""

    Options: ClassVar[type[Any]] = EROptions
    options: EROptions
    memory: BalancedMemory

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.memory = BalancedMemory(self.options.buffer)

    def loss(self, batch: Batch) -> Losses:
        """Of both batches in one pass; held-out images are judged alone."""
        if not self.rehearses:
            return {"class": self.class_loss(batch)}
        kept = self.remembered(len(batch.y))
        return {"class": self.class_loss(Batch(*(torch.cat(pair) for pair in zip(batch, kept, strict=True))))}

    @property
    def rehearses(self) -> bool:
        """Whether there is something to rehearse now."""
        return self.training and self.memory.kept_images > 0

    def remembered(self, count: int) -> Batch:
        """A random batch of the memory, no image twice: as many as there are, up to ``count``; varied as all images."""
        rows = torch.randperm(self.memory.kept_images)[:count]
        x, y, task = self.memory.examples.batch(rows.to(self.memory.y.device))
        return Batch(augment(x, self.augment), y, task)

    def end_task(self, task: Task) -> None:
        """Keep a share of the task, its classes equally, and shrink the shares of those before."""
        self.memory.end_task(task, spawn())
