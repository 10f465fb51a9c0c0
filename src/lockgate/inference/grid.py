"""Maps averaged: over all of them for gates, and over the cells of a grid for a read-out.

A map that several streams take their channels of carries its averages with it: they are found once for all.

torch has one call for cells. ONNX has none where windows differ in size or overlap (14 pixels in 4 cells), and what an
exporter writes in its place takes longer than the convolutions. There each cell is a weighted sum of pixels: one
product with a matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from lockgate.layers.pool import pooled


class Averages(NamedTuple):
    """Of a map (B, C, H, W)."""

    mean: Tensor  # (B, C)
    cells: Tensor | None  # (B, C, cells), where a read-out reads it

    def gated(self, places: Tensor, gates: Tensor) -> Averages:
        """Of the channels ``places``, where their ``gates`` (B, n) of 0 and 1 are open."""
        cells = None if self.cells is None else self.cells.index_select(1, places) * gates[:, :, None]
        return Averages(self.mean.index_select(1, places) * gates, cells)


def averages(h: Tensor, grid: int | None) -> Averages:
    """Of ``h``; ``grid`` None: nobody reads its cells."""
    return Averages(h.mean((2, 3)), None if grid is None else torch.unflatten(cells(h, grid), 1, (h.shape[1], -1)))


def joined_averages(parts: list[Averages]) -> Averages:
    """Of images one part after another."""
    cells = [part.cells for part in parts if part.cells is not None]
    return Averages(torch.cat([part.mean for part in parts]), torch.cat(cells) if cells else None)


def carrying(h: Tensor, found: Averages) -> Tensor:
    """``h`` (B, C, H, W), which says what its averages are."""
    cast(Any, h).averages = found
    return h


def carried(h: Tensor) -> Averages | None:
    """The averages that ``h`` carries."""
    found: Averages | None = getattr(h, "averages", None)
    return found


def mean(h: Tensor) -> Tensor:
    """Of a map (B, C[, H, W]), (B, C)."""
    if h.dim() == 2:
        return h
    found = carried(h)
    return h.mean((2, 3)) if found is None else found.mean


def cells(h: Tensor, grid: int) -> Tensor:
    """``pooled``: a map (B, C[, H, W]) averaged to at most ``grid`` x ``grid`` cells, (B, C * cells)."""
    found = carried(h)
    if found is not None and found.cells is not None:
        return found.cells.flatten(1)
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
