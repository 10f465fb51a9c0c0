"""ER-ACE (Caccia et al., New Insights on Reducing Abrupt Representation Change in Online CL, ICLR 2022).

asymmetric cross-entropy:   L(B, classes of the task) + L(M, all classes seen)
                            B a batch of the task, M one of the memory, L(., C) cross-entropy with the softmax over C

New images do not push the outputs of old classes down: those learn from the memory alone. So M must have images of the
task too, or nothing would ever tell its classes from old ones: its share is kept when it begins, not when it ends.
"""

from __future__ import annotations

import torch.nn.functional as F

from lockgate.methods.er import ER
from lockgate.training.seeding import spawn
from lockgate.types import Batch, Examples, Losses, Task


class ERACE(ER):
    """Experience replay in which new images compete among the classes of their own task only."""

    def begin_task(self, task: Task) -> Examples:
        """Outputs for the task, and its share of the memory."""
        data = super().begin_task(task)
        self.memory.end_task(task, spawn())
        return data

    def loss(self, batch: Batch) -> Losses:
        """Two terms from two passes; held-out images are judged by the first."""
        new = self.all_logits(batch.x)[:, self.starts[-2] :]  # (B, classes of the task)
        losses = {"class": F.cross_entropy(new, batch.y)}
        if self.rehearses:
            losses["replay"] = self.class_loss(self.remembered(len(batch.y)))
        return losses

    def end_task(self, task: Task) -> None:
        """The memory has its share already."""
