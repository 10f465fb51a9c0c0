"""RanPAC (McDonnell et al., NeurIPS 2023): random projections and a ridge regression on a frozen network.

    h = relu(z P),  P random and fixed        G = sum h h^T,   C = sum h y^T,   y one-hot
    answer  argmax  h^T W,   W = (G + lambda I)^-1 C

Columns of C are sums over one class; G only grows. lambda is the candidate of the least squared error on the held-out
images of all tasks, of which again only such sums are kept: ||Y - H W||^2 = tr(W^T G W) - 2 tr(W^T C) + n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.config import option
from lockgate.methods.base import Context
from lockgate.methods.closed_form import ClosedForm, ClosedFormOptions, collect
from lockgate.methods.statistics import Statistics
from lockgate.types import Task

RIDGES = tuple(10.0**k for k in range(-6, 3))
"""Candidates for lambda, by the mean of G's diagonal."""


@dataclass(frozen=True)
class RanPACOptions(ClosedFormOptions):
    """Options of ranpac."""

    projections: int = option(2000, "Random projections M. Paper: 10,000; the cost grows with their cube.", ge=1)


class Projection(nn.Module):
    """h = relu(z P)."""

    matrix: Tensor

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.register_buffer("matrix", torch.randn(inputs, outputs))

    def forward(self, z: Tensor) -> Tensor:
        """(B, inputs) to (B, M)."""
        return F.relu(z @ self.matrix)


class RanPAC(ClosedForm):
    """Ridge regression to one-hot classes on random projections."""

    Options: ClassVar[type[Any]] = RanPACOptions
    options: RanPACOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.held_out = Statistics(self.width, products=True)
        self.ridge = 0.0
        """What was chosen last, in this process."""

    def make_transform(self, inputs: int) -> nn.Module:
        """P, drawn once, and relu."""
        return Projection(inputs, self.options.projections)

    def solve(self, task: Task) -> tuple[Tensor, Tensor]:
        """W of the best lambda."""
        collect(self, self.held_out, task.val, len(task.classes))
        weight, self.ridge = ridge_weights(self.statistics, self.held_out)
        return weight, weight.new_zeros(len(weight))


def ridge_weights(seen: Statistics, held_out: Statistics) -> tuple[Tensor, float]:
    """W^T (classes, M) that errs least on what is held out, and its lambda."""
    scale = float(seen.products.diagonal().mean()) or 1.0
    tries = []
    for candidate in RIDGES:
        penalty = torch.diag(torch.full((len(seen.products),), candidate * scale, dtype=torch.float64))
        weight = torch.cholesky_solve(seen.sums.T, torch.linalg.cholesky(seen.products + penalty))  # (M, classes)
        error = ((held_out.products @ weight) * weight).sum() - 2 * (held_out.sums.T * weight).sum()
        tries.append((float(error), candidate * scale, weight.T))
    _, ridge, weight = min(tries, key=lambda found: found[0])
    return weight, ridge
