"""A convolution of few filters and the 2x2 max pooling after it, in one: neighbours that are pooled lie side by side.

The registers of a processor hold the filters of one pixel, and few filters leave them half empty. So the four pixels
that are pooled are made at once, each as a filter of its own on the 4x4 pixels that they read: four times the channels
at a quarter of the places, and a maximum over groups of channels is all that pooling is then. Where filters would fill
the registers anyway, the zeros in the wider kernels cost more than is spared.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

MOST_FILTERS = {"AVX512": 8, "AVX2": 4}
"""Up to so many filters it is faster: four times as many fill two registers."""
MOST_INPUTS = 16
"""Of so many channels at most: beyond, the zeros cost as much as is spared."""
FEWEST = 32
"""Images from which on it pays to make the wider kernels."""


def pays(x: Tensor, weight: Tensor, stride: int) -> bool:
    """Whether ``x`` (B, c_in, H, W) is convolved and pooled sooner so."""
    if torch.compiler.is_compiling() or weight.dim() != 4 or x.device.type != "cpu" or len(x) < FEWEST:
        return False
    filters, inputs = weight.shape[:2]
    return (
        stride == 1
        and inputs <= MOST_INPUTS
        and filters <= MOST_FILTERS.get(torch.backends.cpu.get_cpu_capability(), 0)
    )


def convolved_and_pooled(x: Tensor, weight: Tensor, bias: Tensor, padding: int) -> Tensor:
    """``pool_relu`` of the convolution of ``x`` (B, c_in, H, W) with ``weight`` (c_out, c_in, k, k)."""
    count = len(weight)
    four = F.conv2d(x, _side_by_side(weight), bias.repeat(4), 2, padding)  # (B, 4 * c_out, H/2, W/2)
    two = torch.maximum(four[:, : 2 * count], four[:, 2 * count :])
    return torch.maximum(two[:, :count], two[:, count:]).clamp_min_(0)


def _side_by_side(weight: Tensor) -> Tensor:
    """The filters at each of four neighbours, (4 * c_out, c_in, k + 1, k + 1)."""
    count, inputs, height, width = weight.shape
    made = weight.new_zeros(2, 2, count, inputs, height + 1, width + 1)
    for row in range(2):
        for column in range(2):
            made[row, column, ..., row : row + height, column : column + width] = weight
    return made.flatten(0, 2).contiguous(memory_format=torch.channels_last)
