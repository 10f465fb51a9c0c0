"""Augmentation of whole batches of uint8 images, on the device they are on.

Each function draws from ``rng``, a CPU generator, or from torch's current one, which the loop seeds in every step: a
resumed run sees the same images. What is turned off draws nothing.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.config import AugmentConfig

LUMA = (0.299, 0.587, 0.114)
"""What red, green and blue count in how bright a pixel looks (ITU-R BT.601)."""


def augment(x: Tensor, config: AugmentConfig, rng: torch.Generator | None = None) -> Tensor:
    """Images ``x`` (B, C, H, W) uint8 as ``config`` varies them."""
    x = random_affine(random_translate(x, config.random_translate, rng), config.random_affine, rng)
    x = random_crop(x, config.random_crop, rng)
    x = random_flip(x, rng) if config.random_flip else x
    return colour_jitter(x, config.brightness, config.contrast, config.saturation, rng) if config.photometric else x


def random_translate(x: Tensor, pixels: int, rng: torch.Generator | None = None) -> Tensor:
    """Move each image of ``x`` (B, C, H, W) by up to ``pixels`` each way, repeating its border."""
    if pixels == 0:
        return x
    count, _, height, width = x.shape
    down, right = torch.randint(-pixels, pixels + 1, (2, count), generator=rng, device=_where(x, rng)).to(x.device)
    rows = (torch.arange(height, device=x.device) - down[:, None]).clamp_(0, height - 1)  # (B, H)
    columns = (torch.arange(width, device=x.device) - right[:, None]).clamp_(0, width - 1)  # (B, W)
    image = torch.arange(count, device=x.device)
    return x.permute(0, 2, 3, 1)[image[:, None, None], rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def random_flip(x: Tensor, rng: torch.Generator | None = None) -> Tensor:
    """Mirror each image of ``x`` (B, C, H, W) left to right with probability one half."""
    mirrored = _drawn(x, rng) < 0.5
    return torch.where(mirrored[:, None, None, None], x.flip(3), x)


def random_affine(x: Tensor, strength: float, rng: torch.Generator | None = None) -> Tensor:
    """Turn, stretch and shear each image of ``x`` (B, C, H, W) uint8 about its centre, repeating its border.

    The map of each image is the identity plus up to ``strength`` either way in each of its four entries: 0.15 turns by
    up to 9 degrees and stretches by up to 15 %.
    """
    if strength == 0:
        return x
    linear = torch.eye(2, device=x.device) + strength * (2 * _drawn(x, rng, 2, 2) - 1)
    return _sampled(x, linear, linear.new_zeros(len(x), 2))


def random_crop(x: Tensor, cut: float, rng: torch.Generator | None = None) -> Tensor:
    """A part of each image of ``x`` (B, C, H, W) uint8, enlarged to the whole (Inception's crop).

    Its area is between 1 - ``cut`` and 1 of the image's, uniformly; its proportions, where they fit, are between 3:4
    and 4:3 of the image's, uniformly in their logarithm; its place is any.
    """
    if cut == 0:
        return x
    area, ratio, right, down = _drawn(x, rng, 4).unbind(1)
    area, ratio = 1 - cut * area, (math.log(4 / 3) * (2 * ratio - 1)).exp()
    size = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], dim=1).clamp(max=1)  # (B, 2): width, height
    centre = (1 - size) * (2 * torch.stack([right, down], dim=1) - 1)
    return _sampled(x, torch.diag_embed(size), centre)


def colour_jitter(
    x: Tensor, brightness: float, contrast: float, saturation: float, rng: torch.Generator | None = None
) -> Tensor:
    """Images ``x`` (B, C, H, W) uint8 with each of three things changed by a factor, up to so much off 1.

    Brightness moves pixels away from black, contrast from the image's mean grey, saturation from their own grey. Grey
    images have no colours to change.
    """
    factors = 1 + torch.tensor([brightness, contrast, saturation], device=x.device) * (2 * _drawn(x, rng, 3) - 1)
    bright, contrasted, saturated = factors[..., None, None, None].unbind(1)  # (B, 1, 1, 1) each
    varied = x.float() * bright
    mean = _grey(varied).mean((2, 3), keepdim=True)
    varied = mean + contrasted * (varied - mean)
    if x.shape[1] == len(LUMA):
        grey = _grey(varied)
        varied = grey + saturated * (varied - grey)
    return varied.round_().clamp_(0, 255).to(torch.uint8)


def _grey(x: Tensor) -> Tensor:
    """(B, C, H, W) to (B, 1, H, W)."""
    if x.shape[1] != len(LUMA):
        return x.mean(1, keepdim=True)
    return (x * x.new_tensor(LUMA)[:, None, None]).sum(1, keepdim=True)


def _sampled(x: Tensor, linear: Tensor, centre: Tensor) -> Tensor:
    """Images ``x`` uint8 at affine maps of their pixels: ``linear`` (B, 2, 2) about ``centre`` (B, 2), in [-1, 1]."""
    maps = torch.cat([linear, centre[:, :, None]], dim=2)  # (B, 2, 3)
    grid = F.affine_grid(maps, list(x.shape), align_corners=False)  # (B, H, W, 2)
    moved = F.grid_sample(x.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return moved.round_().clamp_(0, 255).to(torch.uint8)


def _drawn(x: Tensor, rng: torch.Generator | None, *shape: int) -> Tensor:
    """Numbers in [0, 1) for each image of ``x``, (B, *shape), on its device."""
    return torch.rand(len(x), *shape, generator=rng, device=_where(x, rng)).to(x.device)


def _where(x: Tensor, rng: torch.Generator | None) -> torch.device:
    """Where to draw: as ``rng`` is on the CPU, there, so that every device gets the same numbers."""
    return x.device if rng is None else torch.device("cpu")
