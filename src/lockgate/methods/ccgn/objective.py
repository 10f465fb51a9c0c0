"""The objective of the paper: Eq. 3 and Eq. 5."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lockgate.types import Losses


def objective(
    class_loss: Tensor, gates: Sequence[Tensor], lambda_s: float | Tensor | None, task_loss: Tensor | None = None
) -> Losses:
    """What is minimised while task t is learnt:

        - log p(y|x,t)   - log p(t|x)   +   lambda_s / L * sum_l E[ ||G_l(x)||_1 / c_l ]
          class loss       task loss        sparsity
          Eq. 3            Eq. 3            Eq. 5

    ``class_loss``: cross-entropy of the current head on real images of task t. ``task_loss``: cross-entropy of the task
    classifier on a rehearsal batch, uniform over tasks; None: the task is given, or it is the first. ``lambda_s``: None
    while the sparsity objective does not take part.
    """
    losses = {"class": class_loss}
    if lambda_s is not None:
        losses["sparsity"] = lambda_s * sparsity(gates)
    if task_loss is not None:
        losses["task"] = task_loss
    return losses


def sparsity(gates: Sequence[Tensor]) -> Tensor:
    """Eq. 5 without its coefficient: the mean over layers of the mean share of open gates, gates being (B, c_out)."""
    return torch.stack([gate.mean() for gate in gates]).mean()
