"""The closed form behind a read-out: which inputs it keeps, and the ridge regression on them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

STILL = 1e-5
"""Inputs that vary less than this are not read."""
MOST_INPUTS = 2048
"""Of all streams together, the heads' logits aside (docs/methods/streams.md has what fewer and more of them know)."""
TELLING = 10.0
"""The ridge of the fit to all inputs by whose weights they are chosen: strong, so that inputs that say the same share a
weight instead of one of them having it all."""


class Ridge:
    """Weighted ridge regression of one-hot classes on standardised inputs: solved in images or inputs, the fewer.

    The last inputs, one a class, are the logits of all heads. They were learnt from all images of a task, not from the
    few that are stored, so they are to be trusted more: together they weigh as much as all the others.
    """

    def __init__(self, inputs: Tensor, y: Tensor, classes: int) -> None:
        counts = torch.bincount(y, minlength=classes).clamp(min=1).to(inputs)
        share = (1 / counts[y]) / (1 / counts[y]).sum()  # (N,), every class the same
        self.mean = share @ inputs
        spread = (share @ (inputs - self.mean).square()).sqrt()
        self.scale = torch.where(spread > STILL, 1 / spread.clamp(min=STILL), 0.0)
        moving = self.scale > 0  # (D,)
        self.scale[-classes:] *= (moving[:-classes].sum() / moving[-classes:].sum().clamp(min=1)).clamp(min=1).sqrt()
        root = (share * len(y)).sqrt()  # its squares sum to N, so that alpha means the same however many there are
        self.x = self.standard(inputs) * root[:, None]  # (N, D)
        target = F.one_hot(y, classes).to(inputs)
        self.centre = share @ target  # (classes,)
        self.target = ((target - self.centre) * root[:, None]).double()
        self.in_images = self.x.shape[0] <= self.x.shape[1]
        self.gram = (self.x @ self.x.T if self.in_images else self.x.T @ self.x).double()

    def standard(self, inputs: Tensor) -> Tensor:
        """Inputs (N, D) of mean 0 and their weight as variance; those that stand still are 0."""
        return (inputs - self.mean) * self.scale

    def products(self, inputs: Tensor) -> Tensor:
        """What ``scores`` needs of other inputs (M, D), whatever alpha."""
        standard = self.standard(inputs)
        return (standard @ self.x.T if self.in_images else standard).double()

    def scores(self, products: Tensor, alpha: float) -> Tensor:
        """Scores (M, classes)."""
        return products @ self.solution(alpha) + self.centre

    def solution(self, alpha: float) -> Tensor:
        """The coefficient of each image, (N, classes), or of each input, (D, classes)."""
        ridge = alpha * len(self.x) * torch.eye(len(self.gram), dtype=torch.float64, device=self.x.device)
        right = self.target if self.in_images else self.x.double().T @ self.target
        return torch.cholesky_solve(right, torch.linalg.cholesky(self.gram + ridge))

    def weights(self, alpha: float) -> tuple[Tensor, Tensor]:
        """Weights (classes, D) and biases (classes,) on inputs as they are."""
        weight = (self.standard_weights(alpha) * self.scale[:, None]).T
        return weight, self.centre - weight @ self.mean

    def standard_weights(self, alpha: float) -> Tensor:
        """Weights (D, classes) on standardised inputs."""
        solution = self.solution(alpha).to(self.x)
        return self.x.T @ solution if self.in_images else solution


def most_telling(inputs: Tensor, y: Tensor, classes: int) -> Tensor:
    """Which of the inputs (N, D + classes) to keep, the logits aside: ascending, (at most ``MOST_INPUTS``,) int32.

    Those of the largest weights, over all classes, in a fit to all inputs: standardised, so that weights compare. Those
    that stand still have none. Where there are no more than so many, all are kept.
    """
    every = inputs.shape[1] - classes
    if every <= MOST_INPUTS:
        return torch.arange(every, dtype=torch.int32)
    weights = Ridge(inputs, y, classes).standard_weights(TELLING)[:every]
    chosen = weights.square().sum(1).sort(descending=True, stable=True).indices[:MOST_INPUTS]
    return chosen.sort().values.to(torch.int32)
