"""The paper's method, class-incremental, rehearsed from an episodic memory (Section 4.3); ours has a companion."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.memory.episodic import EpisodicMemory
from lockgate.memory.held_out import HeldOutMemory
from lockgate.methods.base import Context
from lockgate.methods.ccgn.class_incremental import ClassIncremental
from lockgate.methods.ccgn.companion import Companion
from lockgate.methods.ccgn.options import EpisodicOptions
from lockgate.methods.ccgn.start import begin_as
from lockgate.methods.ccgn.targets import first_classes
from lockgate.types import Batch, Examples, Losses, Task


class CCGNEpisodic(ClassIncremental):
    """Keeps exactly C real images."""

    Options: ClassVar[type[Any]] = EpisodicOptions
    options: EpisodicOptions
    memory: EpisodicMemory

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        if self.options.companion and context.plain_backbone is not None:
            self.companion = Companion(context.plain_backbone(self.options.companion))

    def make_memory(self) -> EpisodicMemory:
        """An empty buffer: of any images (paper); for a read-out, of images that were held out of training."""
        kind = EpisodicMemory if self.options.readout == "mlp" else HeldOutMemory
        return kind(self.options.buffer)

    # -- the companion: what it learns has no say in how streams learn, so it has randomness and clipping of its own;
    #    a later stream begins as it stands then

    def begin_task(self, task: Task) -> Examples:
        """Free filters begin as the companion's, once it has learnt something."""
        current = super().begin_task(task)
        if self.companion is not None and len(self.heads) > 1:
            begin_as(self.backbone, self.companion, len(self.heads) - 1)
        return current

    def add_task(self, classes: int) -> None:
        """The companion grows too."""
        super().add_task(classes)
        if self.companion is not None:
            with torch.random.fork_rng(devices=[]):
                self.companion.add_task(classes)

    def loss(self, batch: Batch) -> Losses:
        """Eq. 3, and what the companion learns; held-out images judge the streams alone."""
        losses = super().loss(batch)
        if self.companion is not None and self.training:
            with torch.random.fork_rng(devices=[]):
                losses["companion"] = self.companion_loss(self.companion, batch)
        return losses

    def companion_loss(self, companion: Companion, batch: Batch) -> Tensor:
        """Of the task's own images among its classes, and of as many rehearsed ones among all classes seen."""
        if len(self.heads) == 1:
            return self.cross_entropy(companion(self.input(batch.x)), batch.y)
        pool = self.pool(self.options.rehearsal or len(batch.y))
        rows = pool.rows(len(batch.y), at_random=True).to(pool.x.device)
        new, rehearsed = companion.logits(self.input(batch.x), self.input(pool.x[rows]))
        target = pool.y[rows] + first_classes(self).to(pool.y.device)[pool.task[rows]]
        return self.cross_entropy(new, batch.y) + F.cross_entropy(rehearsed, target)

    def clipped_apart(self) -> list[nn.Parameter]:
        """The companion's gradient."""
        return [] if self.companion is None else list(self.companion.parameters())
