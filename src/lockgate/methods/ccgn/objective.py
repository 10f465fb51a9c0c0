"""Terms of the objectives, as plain functions."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sparsity(gates: tuple[Tensor, ...]) -> Tensor:
    """Eq. 5 without its coefficient: the mean over layers of the mean share of open gates, gates being (B, c_out)."""
    return torch.stack([gate.mean() for gate in gates]).mean()


def below_chance(class_loss: Tensor, classes: int) -> Tensor:
    """How far a cross-entropy is below that of guessing: 1 where it is zero, 0 from chance on. No gradient."""
    if classes == 1:  # nothing to learn
        return torch.ones_like(class_loss)
    return (1 - class_loss.detach() / math.log(classes)).clamp(min=0)
