"""GDumb (Prabhu, Torr and Dokania, ECCV 2020): a greedy sampler and a dumb learner.

begin task t:   the sampler sees the task's images and keeps C in all, balanced by class (memory/greedy.py)
train task t:   a network from scratch, on the kept images alone; cross-entropy among all classes seen, with CutMix
predict:        argmax over all classes seen; with the task given, over its classes

Whatever a method has beyond this number, it has from more than its memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.config import option
from lockgate.memory.greedy import GreedyMemory
from lockgate.methods.base import Context
from lockgate.methods.single_head import SingleHead
from lockgate.training.phase import Phase, steps_per_epoch
from lockgate.training.seeding import spawn
from lockgate.types import Batch, Examples, Losses, Task


@dataclass(frozen=True)
class GDumbOptions:
    """Options of gdumb."""

    buffer: int = option(2000, "Images kept in all, equally many of each class.", ge=1)
    cutmix: float = option(0.5, "Share of steps with CutMix. Authors: 0.5, on MNIST 0.", ge=0, le=1)
    passes: int = option(
        0,
        "Epochs over the kept images; 0: as many steps as `epochs` over the task's own images would be. "
        "Authors: 256, on MNIST 128.",
        ge=0,
    )


class GDumb(SingleHead):
    """Forgets the network at every task and learns anew from the memory; sees nothing else."""

    Options: ClassVar[type[Any]] = GDumbOptions
    options: GDumbOptions
    memory: GreedyMemory

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.memory = GreedyMemory(self.options.buffer)
        self._untrained = {name: value.clone() for name, value in self.backbone.state_dict().items()}
        self._own = 0  # images of the current task

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> Examples:
        """Let the sampler choose, then forget all that was learnt; to train on: what is kept."""
        super().begin_task(task)
        self._own = len(task.train)
        self.memory.take(task.train, spawn())
        if self.standardise:
            self.input.fit([self.memory.x])  # the network's scale, too, comes from what is kept
        self.backbone.load_state_dict(self._untrained)
        for head in self.heads:
            cast(nn.Linear, head).reset_parameters()
        return Examples(self.memory.x.cpu(), self.memory.y.cpu(), self.memory.task.cpu())

    def schedule(self, phase: Phase) -> Phase:
        """The optimiser of the experiment, for ``passes`` or as many steps as it gives to the task's own images.

        The last epoch is kept: held-out images are not among those stored.
        """
        optim = replace(phase.optim, selection="last")
        if self.options.passes:
            return replace(phase, optim=optim, epochs=self.options.passes)
        return replace(phase, optim=optim, steps=steps_per_epoch(self._own, optim.batch_size))

    def loss(self, batch: Batch) -> Losses:
        """Cross-entropy, of two images in one where there is CutMix."""
        if not self.training or not bool(torch.rand(()) < self.options.cutmix):
            return {"class": self.class_loss(batch)}
        mixed, other, share = cutmix(batch.x)
        logits, labels = self.all_logits(mixed), self.labels(batch)
        loss = share * F.cross_entropy(logits, labels) + (1 - share) * F.cross_entropy(logits, labels[other])
        return {"class": loss}

    # -- what the run asks -------------------------------------------------------------------------------------------

    def stage_steps(self, images: Sequence[int], planned: Callable[[int], int]) -> list[int]:
        """On the kept images, if ``passes`` says so; classes of unequal size may leave fewer of them."""
        if not self.options.passes:
            return super().stage_steps(images, planned)
        kept = [
            min(self.options.buffer, seen) if own else 0 for own, seen in zip(images, accumulate(images), strict=True)
        ]
        epochs = planned(1)  # one image is one step an epoch
        return [steps // epochs * self.options.passes for steps in super().stage_steps(kept, planned)]


def cutmix(x: Tensor) -> tuple[Tensor, Tensor, float]:
    """Images (B, C, H, W) with one box of each replaced by that of another (Yun et al. 2019, alpha 1).

    Returns the images, which the other of each is (B,), and what share of an image is its own.
    """
    height, width = x.shape[2:]
    other = torch.randperm(len(x)).to(x.device)
    side = math.sqrt(1 - float(torch.rand(())))  # of the box, as a share of the image's: its area is uniform
    down, right = (int(torch.randint(size, ())) for size in (height, width))  # its centre
    half_height, half_width = int(height * side) // 2, int(width * side) // 2
    rows = slice(max(0, down - half_height), min(height, down + half_height))
    columns = slice(max(0, right - half_width), min(width, right + half_width))
    mixed = x.clone()
    mixed[:, :, rows, columns] = x[other][:, :, rows, columns]
    covered = (rows.stop - rows.start) * (columns.stop - columns.start) / (height * width)
    return mixed, other, 1 - covered
