"""The straight-through Gumbel gate (paper, Section 3.2)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

TEMPERATURE = 2 / 3


class _HardThreshold(torch.autograd.Function):
    """Forward: 1 where z > 0. Backward: the derivative of sigmoid(z / temperature)."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, temperature: float) -> Tensor:
        ctx.save_for_backward(z)
        ctx.temperature = temperature
        return (z > 0).to(z.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (z,) = ctx.saved_tensors
        soft = torch.sigmoid(z / ctx.temperature)
        return grad * soft * (1 - soft) / ctx.temperature, None


def logistic_noise(like: Tensor) -> Tensor:
    """Logistic noise: the difference of two independent Gumbels, which is what a two-way Gumbel-softmax adds."""
    tiny = torch.finfo(like.dtype).tiny
    u = torch.rand_like(like).clamp_(tiny, 1 - torch.finfo(like.dtype).eps)
    return u.log() - torch.log1p(-u)


def hard_gate(logits: Tensor, noisy: bool, temperature: float = TEMPERATURE) -> Tensor:
    """Binary gates from ``logits``: hard threshold at 0 forward, sigmoid of the given temperature backward.

    ``noisy`` adds logistic noise before the threshold, as while training; without it the gate is deterministic.
    """
    z = logits + logistic_noise(logits) if noisy else logits
    gate: Tensor = _HardThreshold.apply(z, temperature)  # type: ignore[no-untyped-call]
    return gate
