"""ReLU, 2x2 max pooling, pooling to a grid, and roots of what was pooled."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

FEW = 4


def relu(h: Tensor) -> Tensor:
    """``F.relu(h)``, of what nobody else needs: in its place where no gradient is wanted, which spares the memory."""
    return F.relu(h) if torch.is_grad_enabled() or torch.compiler.is_compiling() else h.relu_()


def max_pool(h: Tensor) -> Tensor:
    """``F.max_pool2d(h, 2)``, the same bits, faster where no gradient is wanted.

    torch's own also finds where each maximum was, which only its backward pass needs. Two element-wise maxima do less,
    but in more calls: for a few images, and in exported graphs, torch's own it is.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or len(h) <= FEW:
        return F.max_pool2d(h, 2)
    height, width = h.shape[2] // 2 * 2, h.shape[3] // 2 * 2  # a last odd row or column is left out
    rows = torch.maximum(h[:, :, 0:height:2], h[:, :, 1:height:2])
    return torch.maximum(rows[..., 0:width:2], rows[..., 1:width:2])


def pool_relu(h: Tensor) -> Tensor:
    """2x2 max pooling, then ReLU: the values of the other order (both are monotone), at a quarter of its cost."""
    return relu(max_pool(h))


def pooled(h: Tensor, grid: int) -> Tensor:
    """A map (B, C[, H, W]) averaged to at most ``grid`` x ``grid`` cells, channel by channel, (B, C * cells)."""
    if h.dim() == 2:
        return h
    return F.adaptive_avg_pool2d(h, (min(grid, h.shape[2]), min(grid, h.shape[3]))).flatten(1)


def root(h: Tensor) -> Tensor:
    """Square roots, with their signs: activations are many small ones and a few large, which would rule a fit."""
    return h.sign() * h.abs().sqrt()
