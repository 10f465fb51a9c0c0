"""Augmentation of whole batches of uint8 images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.config import AugmentConfig


def augment(x: Tensor, config: AugmentConfig, rng: torch.Generator | None = None) -> Tensor:
    """Images ``x`` (B, C, H, W) uint8 as ``config`` varies them.

    Draws from ``rng``, a CPU generator, or from torch's current one.
    """
    x = random_affine(random_translate(x, config.random_translate, rng), config.random_affine, rng)
    return random_flip(x, rng) if config.random_flip else x


def random_translate(x: Tensor, pixels: int, rng: torch.Generator | None = None) -> Tensor:
    """Move each image of ``x`` (B, C, H, W) by up to ``pixels`` each way, repeating its border.

    Draws from ``rng``, a CPU generator, or from torch's current one.
    """
    if pixels == 0:
        return x
    count, _, height, width = x.shape
    where = x.device if rng is None else "cpu"
    down, right = torch.randint(-pixels, pixels + 1, (2, count), generator=rng, device=where).to(x.device)
    rows = (torch.arange(height, device=x.device) - down[:, None]).clamp_(0, height - 1)  # (B, H)
    columns = (torch.arange(width, device=x.device) - right[:, None]).clamp_(0, width - 1)  # (B, W)
    image = torch.arange(count, device=x.device)
    return x.permute(0, 2, 3, 1)[image[:, None, None], rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def random_flip(x: Tensor, rng: torch.Generator | None = None) -> Tensor:
    """Mirror each image of ``x`` (B, C, H, W) left to right with probability one half.

    Draws from ``rng``, a CPU generator, or from torch's current one.
    """
    mirrored = (torch.rand(len(x), generator=rng, device=x.device if rng is None else "cpu") < 0.5).to(x.device)
    return torch.where(mirrored[:, None, None, None], x.flip(3), x)


def random_affine(x: Tensor, strength: float, rng: torch.Generator | None = None) -> Tensor:
    """Turn, stretch and shear each image of ``x`` (B, C, H, W) uint8 about its centre, repeating its border.

    The map of each image is the identity plus up to ``strength`` either way in each of its four entries: 0.15 turns by
    up to 9 degrees and stretches by up to 15 %. Draws from ``rng``, a CPU generator, or from torch's current one.
    """
    if strength == 0:
        return x
    drawn = torch.rand(len(x), 2, 2, generator=rng, device=x.device if rng is None else "cpu")
    linear = torch.eye(2, device=x.device) + strength * (2 * drawn.to(x.device) - 1)
    maps = torch.cat([linear, linear.new_zeros(len(x), 2, 1)], dim=2)  # (B, 2, 3)
    grid = F.affine_grid(maps, list(x.shape), align_corners=False)  # (B, H, W, 2)
    moved = F.grid_sample(x.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return moved.round_().clamp_(0, 255).to(torch.uint8)
