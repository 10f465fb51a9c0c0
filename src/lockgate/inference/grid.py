"""Maps averaged to the cells of a grid, in a form that exports well.

torch has one call for it. ONNX has none where windows differ in size or overlap (14 pixels in 4 cells), and what an
exporter writes in its place takes longer than the convolutions. There each cell is a weighted sum of pixels: one
product with a matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lockgate.layers.pool import pooled


def cells(h: Tensor, grid: int) -> Tensor:
    """``pooled``: a map (B, C[, H, W]) averaged to at most ``grid`` x ``grid`` cells, (B, C * cells)."""
    if h.dim() == 2 or not torch.compiler.is_compiling():
        return pooled(h, grid)
    height, width = h.shape[2:]
    down, across = _shares(height, min(grid, height)), _shares(width, min(grid, width))
    shares = [
        [down[y][i] * across[x][j] for i in range(len(down[0])) for j in range(len(across[0]))]
        for y in range(height)
        for x in range(width)
    ]
    return torch.matmul(h.flatten(2), torch.tensor(shares, dtype=h.dtype, device=h.device)).flatten(1)


def _shares(size: int, count: int) -> list[list[float]]:
    """How much each of ``size`` pixels counts in each of ``count`` windows; as torch lays them, they may overlap."""
    made = [[0.0] * count for _ in range(size)]
    for window in range(count):
        first, end = window * size // count, -(-(window + 1) * size // count)
        for pixel in range(first, end):
            made[pixel][window] = 1 / (end - first)
    return made
