"""Streaming linear discriminant analysis (Hayes and Kanan, CVPR Workshops 2020) on a frozen network.

    z       what is read of an image: square roots with their signs, or as it is
    mu_c    the mean of z over class c
    Sigma   the covariance of z about the mean of its class, one for all classes
    Lambda  ((1 - e) Sigma + e v I)^-1,   e: shrinkage,   v: the mean variance of z
    answer  argmax_c  w_c . z + b_c,   w_c = Lambda mu_c,   b_c = - mu_c . Lambda mu_c / 2

Means and covariance are sums over images: after the last task they are what all images at once would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lockgate.config import option
from lockgate.layers.pool import root
from lockgate.methods.closed_form import ClosedForm, ClosedFormOptions
from lockgate.types import Task

TINY = 1e-30
"""Variance of features that all stand still: nothing is divided by zero."""


@dataclass(frozen=True)
class SLDAOptions(ClosedFormOptions):
    """Options of slda."""

    shrinkage: float = option(
        0.3, "How far covariances are drawn towards none: e. Paper: 1e-4, towards variances of 1.", gt=0, le=1
    )
    roots: bool = option(True, "Take square roots, with their signs, of what is read. Paper: as it is.")


class Roots(nn.Module):
    """Takes square roots, with their signs."""

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, D)."""
        return root(inputs)


class SLDA(ClosedForm):
    """Class means and one covariance for all classes."""

    Options: ClassVar[type[Any]] = SLDAOptions
    options: SLDAOptions

    def make_transform(self, inputs: int) -> nn.Module:
        """z."""
        return Roots() if self.options.roots else nn.Identity()

    def solve(self, task: Task) -> tuple[Tensor, Tensor]:
        """Of all classes seen; priors are equal."""
        means, share = self.statistics.means, self.options.shrinkage
        covariance = self.statistics.covariance()
        variance = covariance.diagonal().mean().clamp(min=TINY)
        shrunken = (1 - share) * covariance + share * variance * torch.eye(len(covariance)).to(covariance)
        weight = torch.cholesky_solve(means.T, torch.linalg.cholesky(shrunken)).T  # (classes, D)
        return weight, -(weight * means).sum(1) / 2
