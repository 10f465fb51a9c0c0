"""Two answers from one set of sums, multiplied: shrunken LDA (slda.py) and a ridge regression on standardised features.

    S       the covariance of z about the mean m of all classes: Sigma + the mean over c of (mu_c - m)(mu_c - m)^T
    u       (z - m) / deviation of z, by S;  R is S in these units
    ridge   V = (R + a D / n)^-1 u(mu_c) / C,  scores 1 / C + V . u,   n: images counted, D: features, C: classes
    answer  softmax(slda / T1 + ridge / T2): both calibrated, then multiplied

Both are linear in z, so their product is: an answer costs what one of them costs, and nothing more is kept. slda takes
classes for clouds of one shape and asks which fits; the regression only wants classes apart. They err on different
images. a, T1 and T2 are those of the least cross-entropy on a task's held-out images, before these are counted; of
several tasks the geometric mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.layers.buffers import take_sizes
from lockgate.methods.base import Context
from lockgate.methods.closed_form import held_out_features
from lockgate.methods.slda import SLDA, TINY
from lockgate.methods.statistics import Statistics
from lockgate.methods.temperature import temperature_of
from lockgate.types import Task

RIDGES = (0.1, 0.3, 1.0)
"""Candidates for a. 1: as much is added to each variance as it comes to if an image is counted D times."""
UNCHOSEN = (0.3, 1.0, 0.01)
"""a, T1 and T2 where no task has two classes and held-out images to choose by."""
STILL = 0.01
"""What is added to deviations before they divide, by their mean: features that stand still do not count."""


class SLDARidge(SLDA):
    """slda, and a ridge regression of one-hot classes on the same features."""

    version: ClassVar[int] = 1
    choices: Tensor

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.register_buffer("choices", torch.empty(0, 3, dtype=torch.float64))  # (tasks, 3): a, T1, T2; NaN: none

    def solve(self, task: Task) -> tuple[Tensor, Tensor]:
        """The sum of both, tempered; the first time for a task, its held-out images choose before."""
        weight, bias = self.solve_slda(task)
        if len(self.choices) < len(self.heads):
            chosen = self._choose(task, weight, bias)
            self.choices = torch.cat([self.choices, self.choices.new_tensor([chosen])])
        ridge, of_slda, of_ridge = self.chosen
        other, shift = self.solve_ridge(ridge)
        return weight / of_slda + other / of_ridge, bias / of_slda + shift / of_ridge

    def solve_slda(self, task: Task) -> tuple[Tensor, Tensor]:
        """The first factor, of all classes seen: weights (classes, D) and biases."""
        return super().solve(task)

    def solve_ridge(self, ridge: float) -> tuple[Tensor, Tensor]:
        """The second factor, for a = ``ridge``."""
        return ridge_weights(self.statistics, ridge)

    @property
    def chosen(self) -> list[float]:
        """a, T1 and T2: the geometric mean of what tasks have chosen."""
        return averaged(self.choices, UNCHOSEN)

    def _choose(self, task: Task, weight: Tensor, bias: Tensor) -> tuple[float, float, float]:
        """On held-out images that are not counted yet, among all classes seen."""
        before = len(bias) - len(task.classes)
        if len(bias) < 2 or not len(task.val):
            return (float("nan"),) * 3
        z, y = held_out_features(self, task).to(weight), task.val.y + before
        tries = []
        for ridge in RIDGES:
            scores = F.linear(z, *self.solve_ridge(ridge)).cpu()
            temperature = temperature_of(scores, y)
            tries.append((float(F.cross_entropy(scores / temperature, y)), ridge, temperature))
        _, ridge, temperature = min(tries)
        return ridge, temperature_of(F.linear(z, weight, bias).cpu(), y), temperature

    def promised(self, task: int) -> dict[str, Tensor]:
        """As of slda, and what the task has chosen."""
        return {**super().promised(task), "choices": self.choices[task]}

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        take_sizes(self, state, prefix, ("choices",))
        super()._load_from_state_dict(state, prefix, *args)


def averaged(choices: Tensor, unchosen: Sequence[float]) -> list[float]:
    """The geometric mean of what tasks have chosen, (tasks, n), NaN where one could not; ``unchosen`` if none could."""
    known = choices[~choices.isnan().any(1)]
    return known.log().mean(0).exp().tolist() if len(known) else list(unchosen)


def ridge_weights(seen: Statistics, ridge: float) -> tuple[Tensor, Tensor]:
    """V (classes, D), on z as it is, and biases (classes,), for a = ``ridge``. Every class counts the same."""
    means = seen.means
    classes, features = means.shape
    middle = means.mean(0)
    apart = means - middle  # (classes, D)
    spread = seen.covariance() + apart.T @ apart / classes
    deviation = spread.diagonal().clamp(min=0).sqrt()
    scale = 1 / (deviation + STILL * deviation.mean()).clamp(min=TINY)
    spread *= scale[:, None] * scale
    spread.diagonal().add_(ridge * features / float(seen.counts.sum()))
    weight = torch.cholesky_solve((apart * scale).T / classes, torch.linalg.cholesky(spread)).T * scale
    return weight, 1 / classes - weight @ middle
