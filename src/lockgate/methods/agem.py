"""A-GEM (Chaudhry et al., Efficient Lifelong Learning with A-GEM, ICLR 2019): no step against the memory.

g: gradient on the current batch;  g_ref: gradient on a random batch of the memory, all past tasks together
if g . g_ref < 0:   g <- g - (g . g_ref) / (g_ref . g_ref) g_ref      (Eq. 11)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from lockgate.config import option
from lockgate.memory.episodic import EpisodicMemory
from lockgate.methods.base import Context
from lockgate.methods.single_head import SingleHead
from lockgate.training import distributed
from lockgate.training.phase import evaluating
from lockgate.training.seeding import spawn
from lockgate.types import Batch, Losses, Task

EPSILON = 1e-30
"""Keeps a reference gradient whose square underflows from dividing by zero, and is too small to do anything else."""


@dataclass(frozen=True)
class AGEMOptions:
    """Options of agem."""

    buffer: int = option(2000, "Images kept in all, shared equally by the tasks seen so far.", ge=1)


class AGEM(SingleHead):
    """Cross-entropy among all classes seen, on the current task's images alone; the memory only bends the gradient."""

    Options: ClassVar[type[Any]] = AGEMOptions
    options: AGEMOptions
    memory: EpisodicMemory

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.memory = EpisodicMemory(self.options.buffer)
        self._count = 0  # images in the batch that was last seen

    def loss(self, batch: Batch) -> Losses:
        """Cross-entropy; the reference batch will be as large."""
        self._count = len(batch.y)
        return super().loss(batch)

    def after_backward(self) -> None:
        """Eq. 11, on the gradient of all parameters as one vector."""
        if not self.memory.kept_images:
            return
        trained = {p: p.grad for p in self.parameters() if p.grad is not None}
        reference = self.reference_gradient(list(trained))
        g = torch.cat([gradient.flatten() for gradient in trained.values()])
        parts = torch.split(project(g, reference), [p.numel() for p in trained])
        for gradient, part in zip(trained.values(), parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def reference_gradient(self, parameters: Sequence[Tensor]) -> Tensor:
        """g_ref as one vector: over a random batch of the memory, and over ranks, each of which draws its own."""
        rows = torch.randperm(self.memory.kept_images)[: self._count]
        batch = self.memory.examples.batch(rows.to(self.memory.y.device))
        with evaluating(self):  # BatchNorm goes by its running statistics, and does not move them
            # Not backward(): that would add to the gradients there are, and wake the hooks of DDP.
            gradients = torch.autograd.grad(self.class_loss(batch), parameters)
        return distributed.total(torch.cat([g.flatten() for g in gradients])) / distributed.world_size()

    def end_task(self, task: Task) -> None:
        """Keep a random share of the task, and shrink the shares of those before."""
        self.memory.end_task(task, spawn())


def project(g: Tensor, reference: Tensor) -> Tensor:
    """Eq. 11: the vector nearest to ``g`` that does not oppose ``reference``; ``g`` itself where it does not."""
    against = torch.dot(g, reference).clamp(max=0)  # not an if: that would wait for the device in every step
    return g - against / (torch.dot(reference, reference) + EPSILON) * reference
