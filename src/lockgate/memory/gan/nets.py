"""Generators and critics of the supplement's table, with its misprints mended.

As printed, the sizes do not come out. Here the MNIST generator crops 8x8 to 7x7 after its first transposed convolution;
the colour generator has stride 2 in all three (4 -> 8 -> 16 -> 32); the third convolution of the MNIST critic is
128 -> 256; critics pad by 2 (5x5) or 1 (3x3). Only generators have BatchNorm, and only the colour ones.

``width`` scales the number of channels: 1 is the paper's, a quarter is about ten times cheaper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lockgate.layers.init import he_deviation
from lockgate.layers.maps import TransposedMap

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
    plan = plan_generator(image_shape, width)
    return Generator(initialised(_sequential(plan)), plan.low)


def make_critic(image_shape: tuple[int, int, int], width: float = 1.0) -> nn.Sequential:
    """The supplement's critic (discriminator) for images of this shape: (B, C, H, W) to (B, 1)."""
    if image_shape == (1, 28, 28):
        return initialised(_critic(image_shape, (64, 128, 256), 5, nn.ReLU(), width))
    return initialised(_critic(image_shape, (128, 256, 512), 3, nn.LeakyReLU(0.01), width))


@dataclass(frozen=True)
class Up:
    """One transposed convolution of a generator."""

    channels: int
    kernel: int
    stride: int
    crop: tuple[int, int] | None = None
    """What is kept of its output, from the top left; None: all."""


@dataclass(frozen=True)
class GeneratorPlan:
    """The supplement's generator in numbers: Linear, reshape, transposed convolutions; ReLUs between them."""

    first: tuple[int, int, int]
    """What the linear layer's output is reshaped to, (C, H, W)."""
    ups: tuple[Up, ...]
    norm: bool
    """Whether BatchNorm stands before each ReLU."""
    low: float
    """Values end in [low, 1]: a sigmoid for 0, a hyperbolic tangent for -1."""


def plan_generator(image_shape: tuple[int, int, int], width: float) -> GeneratorPlan:
    """The plan for images of this shape (C, H, W): MNIST's for 1x28x28, else the colour one."""
    channels, height, side = image_shape
    if image_shape == (1, 28, 28):
        a, b, c = (scaled(n, width) for n in (256, 128, 64))
        ups = (Up(b, 5, 1, crop=(7, 7)), Up(c, 5, 1), Up(1, 8, 2))  # 8x8 -> 7x7, 11x11, 28x28
        return GeneratorPlan((a, 4, 4), ups, norm=False, low=0.0)
    a, b, c = (scaled(n, width) for n in (512, 256, 128))
    ups = (Up(b, 2, 2), Up(c, 2, 2), Up(channels, 2, 2, crop=(height, side)))
    return GeneratorPlan((a, math.ceil(height / 8), math.ceil(side / 8)), ups, norm=True, low=-1.0)  # 4x4 for 32x32


def _sequential(plan: GeneratorPlan) -> nn.Sequential:
    c_in, units = plan.first[0], math.prod(plan.first)
    parts: list[nn.Module] = [nn.Linear(LATENT, units)]
    parts += [nn.BatchNorm1d(units)] if plan.norm else []
    parts += [nn.ReLU(), nn.Unflatten(1, plan.first)]
    for up in plan.ups:
        parts.append(nn.ConvTranspose2d(c_in, up.channels, up.kernel, stride=up.stride))
        parts += [Crop(*up.crop)] if up.crop else []
        if up is not plan.ups[-1]:
            parts += [nn.BatchNorm2d(up.channels)] if plan.norm else []
            parts.append(nn.ReLU())
        c_in = up.channels
    return nn.Sequential(*parts, last_activation(plan))


def last_activation(plan: GeneratorPlan) -> nn.Module:
    """What brings values into the range of images."""
    return nn.Sigmoid() if plan.low == 0 else nn.Tanh()


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


def initialised(net: nn.Sequential) -> nn.Sequential:
    """``net`` with every layer keeping the scale of its input; the supplement does not say how its networks start.

    As torch starts them, signals shrink from layer to layer. Where there is no BatchNorm, as for MNIST, all images of a
    generator are then alike for hundreds of iterations.
    """
    layers = [layer for layer in net if isinstance(layer, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d))]
    for layer in layers:
        fan: float = layer.weight[0].numel()  # (c_out, c_in, ...)
        if isinstance(layer, nn.ConvTranspose2d):  # (c_in, c_out, H, W)
            fan = TransposedMap(layer.stride[0]).fan(layer.weight.transpose(0, 1).shape)
        nn.init.normal_(layer.weight, std=he_deviation(fan, last=layer is layers[-1]))
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
    return net


def scaled(channels: int, width: float) -> int:
    """``channels`` times ``width``, at least one."""
    return max(1, round(channels * width))
