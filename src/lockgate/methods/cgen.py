"""C-Gen (supplement, "Comparison w.r.t. conditional generators"): rehearsal at the level of classes.

before task t:  an AC-GAN on the WGAN-GP critic learns to make labelled images of the task
train task t:   cross-entropy among all classes seen, on generated images only, i.i.d. over the classes of tasks 0 .. t
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from lockgate.memory.conditional import ConditionalMemory
from lockgate.memory.gan.options import GanOptions
from lockgate.methods.base import Context
from lockgate.methods.single_head import SingleHead
from lockgate.training.seeding import spawn
from lockgate.types import Batch, Examples, Losses, Task


@dataclass(frozen=True)
class CGenOptions:
    """Options of cgen: those of its GANs."""

    gan: GanOptions = field(default_factory=GanOptions)


class CGen(SingleHead):
    """Keeps one class-conditional generator per task; the network never learns from a real image."""

    Options: ClassVar[type[Any]] = CGenOptions
    options: CGenOptions
    memory: ConditionalMemory

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.memory = ConditionalMemory(self.options.gan)

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> Examples:
        """Outputs for the task, and a new GAN. An epoch is as long as the task's real images would make it."""
        self._current = super().begin_task(task)
        self.memory.begin_task(task)
        return self._current

    def loss(self, batch: Batch) -> Losses:
        """Cross-entropy of generated images, as many as ``batch`` has; ``batch`` itself is real and judges only."""
        return {"class": self.class_loss(self.generated(len(batch.y)) if self.training else batch)}

    def end_task(self, task: Task) -> None:
        """Keep the generator."""
        self.memory.end_task(task, spawn())
        self.memory.requires_grad_(False)

    # -- what the hooks are made of ----------------------------------------------------------------------------------

    def generated(self, count: int) -> Batch:
        """Generated images with their labels, every class seen as likely as any other."""
        starts = torch.tensor(self.starts)
        tasks = torch.bucketize(torch.randint(int(starts[-1]), (count,)), starts, right=True) - 1  # of each class drawn
        counts = torch.bincount(tasks, minlength=len(self.heads))
        x, y, task = self.memory.draw(self._current, counts, spawn()).batch(slice(None))
        device = self.input.mean.device
        return Batch(x.to(device), y.to(device), task.to(device))
