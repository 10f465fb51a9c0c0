"""RanPAC (McDonnell et al., NeurIPS 2023): random projections and a ridge regression on a frozen network.

    h = relu(z P),  P random and fixed        G = sum h h^T,   C = sum h y^T,   y one-hot
    answer  argmax  h^T W,   W = (G + lambda I)^-1 C

Columns of C are sums over one class; G only grows. lambda is the candidate of the least squared error on the held-out
images of all tasks, of which again only such sums are kept: ||Y - H W||^2 = tr(W^T G W) - 2 tr(W^T C) + n. Then they
are counted too: G and C are of all images.
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
    keeps_held_out: ClassVar[bool] = True
    options: RanPACOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.held_out = Statistics(self.width, products=True)
        self.ridge = 0.0
        """What was chosen last, in this process, in means of G's diagonal."""

    def make_transform(self, inputs: int) -> nn.Module:
        """P, drawn once, and relu."""
        return Projection(inputs, self.options.projections)

    def solve(self, task: Task) -> tuple[Tensor, Tensor]:
        """W of the best lambda: from the training images alone until the held-out ones are counted."""
        counted = len(self.held_out.counts) == len(self.statistics.counts)
        if not counted:
            collect(self, self.held_out, task.val, len(task.classes))
            self.ridge = best_ridge(self.statistics, self.held_out)
        whole = self.statistics.plus(self.held_out) if counted else self.statistics
        weight = ridge_weights(whole, self.ridge)
        return weight, weight.new_zeros(len(weight))


def ridge_weights(seen: Statistics, ridge: float) -> Tensor:
    """W^T (classes, M) for lambda ``ridge``, in means of G's diagonal."""
    scale = float(seen.products.diagonal().mean()) or 1.0
    penalty = ridge * scale * torch.eye(len(seen.products)).to(seen.products)
    return torch.cholesky_solve(seen.sums.T, torch.linalg.cholesky(seen.products + penalty)).T


def best_ridge(seen: Statistics, held_out: Statistics) -> float:
    """The candidate whose weights err least on what is held out."""
    errors = []
    for candidate in RIDGES:
        weight = ridge_weights(seen, candidate).T  # (M, classes)
        error = ((held_out.products @ weight) * weight).sum() - 2 * (held_out.sums.T * weight).sum()
        errors.append((float(error), candidate))
    return min(errors)[1]
