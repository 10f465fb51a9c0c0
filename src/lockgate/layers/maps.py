"""What a layer does with its weight: the linear map and the transposed convolution of generators."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Map(Protocol):
    """What a layer does with its weight (c_out, c_in, H, W)."""

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Apply it."""
        ...

    def fan(self, shape: torch.Size) -> float:
        """Inputs that each output is a sum of."""
        ...

    def bias_shape(self, shape: torch.Size) -> tuple[int, ...]:
        """The shape of the bias."""
        ...


@dataclass(frozen=True)
class LinearMap:
    """``nn.Linear`` from (B, c_in), its output reshaped to (B, c_out, H, W): one bias for each of its units."""

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Map (B, c_in)."""
        c_out, c_in, height, width = weight.shape
        rows = weight.permute(0, 2, 3, 1).reshape(-1, c_in).contiguous()
        return F.linear(x, rows, bias.flatten()).reshape(len(x), c_out, height, width)

    def fan(self, shape: torch.Size) -> float:
        """c_in."""
        return shape[1]

    def bias_shape(self, shape: torch.Size) -> tuple[int, ...]:
        """(c_out, H, W)."""
        return (shape[0], *shape[2:])


@dataclass(frozen=True)
class TransposedMap:
    """``nn.ConvTranspose2d``."""

    stride: int

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Convolve (B, c_in, H, W)."""
        # In one layout, whatever was cut away: kernels, and so bits, depend on it.
        return F.conv_transpose2d(x, weight.transpose(0, 1).contiguous(), bias, self.stride)

    def fan(self, shape: torch.Size) -> float:
        """c_in H W, fewer by the stride: so many of them meet at a pixel, but at the edges."""
        return math.prod(shape[1:]) / self.stride**2

    def bias_shape(self, shape: torch.Size) -> tuple[int, ...]:
        """(c_out,)."""
        return (shape[0],)
