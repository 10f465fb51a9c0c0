"""DER++ (Buzzega et al., Dark Experience for General Continual Learning, NeurIPS 2020).

each step:   B a batch of the task;  M', M'' two independent batches of the memory, with logits z and labels y
             CE(B)  +  alpha mean || h(x') - z' ||^2  +  beta CE(M'')                                        (Eq. 6)
             then the reservoir is offered B: the images as they are, and the logits that h gave them in this step

h gives the logits of all classes seen; z' has those of the classes there were when it was kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.config import AugmentConfig, option
from lockgate.memory.reservoir import ReservoirMemory
from lockgate.methods.base import Context
from lockgate.methods.single_head import SingleHead
from lockgate.training import distributed
from lockgate.training.augment import augment
from lockgate.training.phase import Phase
from lockgate.training.seeding import spawn_seed
from lockgate.types import Batch, Examples, Losses, Task


@dataclass(frozen=True)
class DERPPOptions:
    """Options of der++."""

    buffer: int = option(2000, "Images kept in all, with their logits.", ge=1)
    alpha: float = option(0.1, "Weight of the distance to the kept logits. Authors: 0.1 to 1.", ge=0)
    beta: float = option(0.5, "Weight of the kept labels' cross-entropy. Authors: 0.5 to 1.", ge=0)


class DERPP(SingleHead):
    """Replay of labels and of what the network once said; the memory fills while a task is learnt."""

    Options: ClassVar[type[Any]] = DERPPOptions
    options: DERPPOptions
    memory: ReservoirMemory

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.memory = ReservoirMemory(self.options.buffer)
        self._varied = AugmentConfig()  # how the task's own images vary
        self._shown: tuple[Batch, Tensor] | None = None  # the batch of this step and its logits, for the reservoir

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> Examples:
        """Outputs for the task, and room for their logits."""
        data = super().begin_task(task)
        self.memory.widen(self.starts[-1])
        return data

    def schedule(self, phase: Phase) -> Phase:
        """As it is, but images come as they are, to be kept so; ``loss`` varies them."""
        self._varied = phase.augment
        return replace(phase, augment=AugmentConfig())

    def loss(self, batch: Batch) -> Losses:
        """Eq. 6; held-out images are judged by its first term."""
        if not self.training:
            return {"class": self.class_loss(batch)}
        logits = self.all_logits(augment(batch.x, self._varied))
        losses = {"class": F.cross_entropy(logits, self.labels(batch))}
        if self.memory.kept_images:
            losses["logits"] = self.options.alpha * self.distance(self.remembered(len(batch.y)))
            losses["replay"] = self.options.beta * self.class_loss(self.varied(self.remembered(len(batch.y))))
        self._shown = batch, logits.detach()
        return losses

    def after_step(self) -> None:
        """Offer the reservoir the batch, of all ranks: it stays the same on each."""
        assert self._shown is not None
        (x, y, task), logits = self._shown
        self._shown = None
        seed = distributed.from_rank_zero(torch.tensor(spawn_seed(), device=logits.device))
        batch = Batch(*(distributed.gathered(part) for part in (x, y, task)))
        rng = torch.Generator().manual_seed(int(seed))
        self.memory.offer(batch, distributed.gathered(logits.float()), rng)

    # -- what the hooks are made of ----------------------------------------------------------------------------------

    def remembered(self, count: int) -> Tensor:
        """Rows of a random batch of the memory, no image twice: as many as there are, up to ``count``."""
        return torch.randperm(self.memory.kept_images)[:count].to(self.memory.y.device)

    def varied(self, rows: Tensor) -> Batch:
        """Kept images at ``rows``, varied as all images are."""
        x, y, task = self.memory.examples.batch(rows)
        return Batch(augment(x, self.augment), y, task)

    def distance(self, rows: Tensor) -> Tensor:
        """Mean squared difference of the logits now and those kept, over the classes there were then."""
        batch = self.varied(rows)
        now = self.all_logits(batch.x)  # (B, classes seen)
        known = torch.tensor(self.starts[1:], device=now.device)[batch.task]  # (B,), classes seen when it was kept
        there = torch.arange(now.shape[1], device=now.device) < known[:, None]
        square = (now.float() - self.memory.logits[rows]).square()
        return (square * there).sum() / there.sum()
