"""Terms of the objectives, as plain functions."""

from __future__ import annotations

import torch
from torch import Tensor


def sparsity(gates: tuple[Tensor, ...]) -> Tensor:
    """Eq. 5 without its coefficient: the mean over layers of the mean share of open gates, gates being (B, c_out)."""
    return torch.stack([gate.mean() for gate in gates]).mean()
