"""The paper's method, class-incremental, rehearsed from an episodic memory (Section 4.3); ours has a companion."""

from __future__ import annotations

from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor

from lockgate.memory.episodic import EpisodicMemory
from lockgate.memory.held_out import HeldOutMemory
from lockgate.methods.ccgn.class_incremental import ClassIncremental
from lockgate.methods.ccgn.companion import Companion
from lockgate.methods.ccgn.options import EpisodicOptions
from lockgate.methods.ccgn.targets import first_classes
from lockgate.types import Batch


class CCGNEpisodic(ClassIncremental):
    """Keeps exactly C real images."""

    Options: ClassVar[type[Any]] = EpisodicOptions
    rehearsed = True
    options: EpisodicOptions
    memory: EpisodicMemory

    def make_memory(self) -> EpisodicMemory:
        """An empty buffer: of any images (paper); for a read-out, of images that were held out of training."""
        kind = EpisodicMemory if self.options.readout == "mlp" else HeldOutMemory
        return kind(self.options.buffer)

    def companion_loss(self, companion: Companion, batch: Batch) -> Tensor:
        """Of the task's own images among its classes, and of as many rehearsed ones among all classes seen."""
        if len(self.heads) == 1:
            return super().companion_loss(companion, batch)
        pool = self.pool(self.options.rehearsal or len(batch.y))
        rows = pool.rows(len(batch.y), at_random=True).to(pool.x.device)
        new, rehearsed = companion.logits(self.input(batch.x), self.input(pool.x[rows]))
        target = pool.y[rows] + first_classes(self).to(pool.y.device)[pool.task[rows]]
        return self.cross_entropy(new, batch.y) + F.cross_entropy(rehearsed, target)
