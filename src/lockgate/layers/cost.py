"""What a layer costs, in multiply-accumulates."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


def per_pair(layer: nn.Module, x: Tensor) -> int:
    """Multiply-accumulates for one input and one output channel of ``layer``, for one of the images it reads ``x``."""
    if x.dim() == 2:
        return 1
    conv: Any = layer
    k, s, p = (v[0] if isinstance(v, tuple) else v for v in (conv.kernel_size, conv.stride, conv.padding))
    height, width = ((side + 2 * p - k) // s + 1 for side in x.shape[2:])
    return int(k * k * height * width)
