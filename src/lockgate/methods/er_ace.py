"""ER-ACE (Caccia et al., New Insights on Reducing Abrupt Representation Change in Online CL, ICLR 2022).

asymmetric cross-entropy:   L(B, classes of the task) + L(M, all classes seen)
                            B a batch of the task, M one of the memory, L(., C) cross-entropy with the softmax over C

New images do not push the outputs of old classes down: those learn from the memory alone.
"""

from __future__ import annotations

import torch.nn.functional as F

from lockgate.methods.er import ER
from lockgate.types import Batch, Losses


class ERACE(ER):
    """Experience replay in which new images compete among the classes of their own task only."""

    def loss(self, batch: Batch) -> Losses:
        """Two terms from two passes; held-out images are judged by the first."""
        new = self.all_logits(batch.x)[:, self.starts[-2] :]  # (B, classes of the task)
        losses = {"class": F.cross_entropy(new, batch.y)}
        if self.rehearses:
            losses["replay"] = self.class_loss(self.remembered(len(batch.y)))
        return losses
