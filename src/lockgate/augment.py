"""Augmentation of whole batches: one gather each."""

from __future__ import annotations

import torch
from torch import Tensor


def shift(x: Tensor, pixels: int, rng: torch.Generator | None = None) -> Tensor:
    """Move each image of ``x`` (B, C, H, W) by up to ``pixels`` each way, repeating its border.

    Draws from ``rng``, a CPU generator, or from torch's current one.
    """
    if pixels == 0:
        return x
    count, _, height, width = x.shape
    down, right = torch.randint(-pixels, pixels + 1, (2, count), generator=rng, device=x.device)
    rows = (torch.arange(height, device=x.device) - down[:, None]).clamp_(0, height - 1)  # (B, H)
    columns = (torch.arange(width, device=x.device) - right[:, None]).clamp_(0, width - 1)  # (B, W)
    image = torch.arange(count, device=x.device)
    return x.permute(0, 2, 3, 1)[image[:, None, None], rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def flip(x: Tensor) -> Tensor:
    """Mirror each image of ``x`` (B, C, H, W) left to right with probability one half."""
    mirrored = torch.rand(len(x), device=x.device) < 0.5
    return torch.where(mirrored[:, None, None, None], x.flip(3), x)
