"""Generators and critics of the supplement's table, with its misprints mended.

As printed, the sizes do not come out. Here the MNIST generator crops 8x8 to 7x7 after its first transposed convolution;
the colour generator has stride 2 in all three (4 -> 8 -> 16 -> 32); the third convolution of the MNIST critic is
128 -> 256; critics pad by 2 (5x5) or 1 (3x3). Only generators have BatchNorm, and only the colour ones.

``width`` scales the number of channels: 1 is the paper's, a quarter is about ten times cheaper.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

LATENT = 128
"""Size of the noise vector."""


class Crop(nn.Module):
    """The top left (side, side) of each image."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.height, self.width = height, width

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, C, height, width)."""
        return x[:, :, : self.height, : self.width]


class Generator(nn.Module):
    """Noise (B, 128) to images (B, C, H, W), values in [low, 1]."""

    low: float

    def __init__(self, net: nn.Sequential, low: float) -> None:
        super().__init__()
        self.net, self.low = net, low

    def forward(self, z: Tensor) -> Tensor:
        """Images in the range the critic is shown."""
        out: Tensor = self.net(z)
        return out

    def pixels(self, z: Tensor) -> Tensor:
        """Images as uint8."""
        return to_pixels(self.net(z), self.low)

    def from_pixels(self, x: Tensor) -> Tensor:
        """uint8 images in the range the critic is shown: [0, 1] for MNIST, [-1, 1] for the others."""
        scaled_: Tensor = x / 255 * (1 - self.low) + self.low
        return scaled_


def to_pixels(images: Tensor, low: float) -> Tensor:
    """Images with values in [low, 1] as uint8."""
    unit = (images - low) / (1 - low)
    return (unit * 255).round().clamp(0, 255).to(torch.uint8)


def grid(images: Tensor) -> Tensor:
    """Images (N, C, H, W) eight in a row, as one picture (C, rows, columns)."""
    rows = [torch.cat(list(row), dim=2) for row in torch.split(images, 8)]  # each (C, H, 8 W)
    return torch.cat(rows, dim=1)


def make_generator(image_shape: tuple[int, int, int], width: float = 1.0) -> Generator:
    """The supplement's generator for images of this shape (C, H, W): MNIST's for 1x28x28, else the colour one."""
    if image_shape == (1, 28, 28):
        return _mnist_generator(width)
    return _colour_generator(image_shape, width)


def make_critic(image_shape: tuple[int, int, int], width: float = 1.0) -> nn.Sequential:
    """The supplement's critic (discriminator) for images of this shape: (B, C, H, W) to (B, 1)."""
    if image_shape == (1, 28, 28):
        return _critic(image_shape, (64, 128, 256), 5, nn.ReLU(), width)
    return _critic(image_shape, (128, 256, 512), 3, nn.LeakyReLU(0.01), width)


def _mnist_generator(width: float) -> Generator:
    a, b, c = (scaled(channels, width) for channels in (256, 128, 64))
    return Generator(
        nn.Sequential(
            nn.Linear(LATENT, a * 16),
            nn.ReLU(),
            nn.Unflatten(1, (a, 4, 4)),
            nn.ConvTranspose2d(a, b, 5),  # 8x8
            Crop(7, 7),
            nn.ReLU(),
            nn.ConvTranspose2d(b, c, 5),  # 11x11
            nn.ReLU(),
            nn.ConvTranspose2d(c, 1, 8, stride=2),  # 28x28
            nn.Sigmoid(),
        ),
        low=0.0,
    )


def _colour_generator(image_shape: tuple[int, int, int], width: float) -> Generator:
    channels, *sides = image_shape
    first = [math.ceil(side / 8) for side in sides]  # 4x4 for 32x32
    a, b, c = (scaled(n, width) for n in (512, 256, 128))
    return Generator(
        nn.Sequential(
            nn.Linear(LATENT, a * first[0] * first[1]),
            nn.BatchNorm1d(a * first[0] * first[1]),
            nn.ReLU(),
            nn.Unflatten(1, (a, *first)),
            nn.ConvTranspose2d(a, b, 2, stride=2),
            nn.BatchNorm2d(b),
            nn.ReLU(),
            nn.ConvTranspose2d(b, c, 2, stride=2),
            nn.BatchNorm2d(c),
            nn.ReLU(),
            nn.ConvTranspose2d(c, channels, 2, stride=2),
            Crop(*sides),
            nn.Tanh(),
        ),
        low=-1.0,
    )


def _critic(
    image_shape: tuple[int, int, int], widths: tuple[int, int, int], kernel: int, act: nn.Module, width: float
) -> nn.Sequential:
    parts: list[nn.Module] = []
    c_in, height, side = image_shape
    for channels in widths:
        c_out = scaled(channels, width)
        parts += [nn.Conv2d(c_in, c_out, kernel, stride=2, padding=kernel // 2), act]
        c_in, height, side = c_out, math.ceil(height / 2), math.ceil(side / 2)
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(c_in * height * side, 1))


def scaled(channels: int, width: float) -> int:
    """``channels`` times ``width``, at least one."""
    return max(1, round(channels * width))
