"""A closed-form read-out of all streams, beside the paper's task classifier (Eq. 7).

The paper's classifier reads the pooled last layer of every stream, which is made to tell the classes of its own task
apart and little else. What earlier layers know, and where in the image, is thrown away. Here every gated layer of every
stream is read, pooled to a small grid, and a ridge regression to one-hot classes finds class and task at once:

inputs    z = (roots of pooled maps of all gated layers of streams 1 .. t; logits of heads 1 .. t), standardised;
              the logits together weigh as much as all the rest
scores    s = W z + b,   W = argmin  sum_i w_i ||y_i - W z_i||^2 + alpha ||W||^2,   w_i: every class the same weight
answers   p(y|x) = softmax(s / T),   p(t|x): summed over the classes of t

Streams are sealed: z never changes, no optimiser is needed, and the same images give the same bits. alpha and T are
chosen on images that are left out of a first fit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.backbones.base import Backbone
from lockgate.layers.buffers import take_sizes
from lockgate.layers.pool import pooled, root

IMAGES = 2048
"""How many images it is fitted to, more or less: stored ones are repeated, each time varied as in training."""
CELLS = 48
"""Cells of all layers' grids together, more or less: 4x4 in each of three layers, 1x1 in each of twenty."""
ALPHAS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Candidates, by the number of images."""
TEMPERATURES = tuple(0.02 * 1.25**i for i in range(24))
UNCHOSEN = (1.0, 0.1)
"""alpha and temperature where no image can be left out."""
FOLD = 4
"""One in so many images of a class is left out of the first fit."""
STILL = 1e-5
"""Inputs that vary less than this are not read."""


def grid_of(layers: int) -> int:
    """The side of the grid that maps are pooled to in a network of so many gated layers."""
    return max(1, math.isqrt(CELLS // max(1, layers)))


def read(backbone: Backbone, x: Tensor, task: int) -> tuple[Tensor, Tensor]:
    """Features (B, F) of the stream of ``task`` on standardised images ``x``, and what is read of it, (B, n)."""
    features, maps = backbone.read(x, task)
    grid = grid_of(backbone.depth)
    return features, torch.cat([root(pooled(h, grid)) for h in maps.values()], dim=1)


@dataclass(frozen=True)
class Fit:
    """What was chosen on the images left out, and how well it did there."""

    alpha: float
    temperature: float
    accuracy: float
    inputs: int
    images: int
    seconds: float

    def text(self) -> str:
        """One line for a person."""
        judged = (
            "too few images to leave any out"
            if math.isnan(self.accuracy)
            else f"{self.accuracy:.4f} right of those left out"
        )
        return (
            f"read-out of {self.inputs:,} inputs fitted to {self.images:,} images in {self.seconds:.1f} s: "
            f"ridge {self.alpha:g}, {judged}"
        )


class ReadOut(nn.Module):
    """Linear on everything that is read of all streams; made anew after each task."""

    weight: Tensor
    bias: Tensor
    inputs: Tensor
    temperature: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.empty(0, 0))  # (classes seen, inputs)
        self.register_buffer("bias", torch.empty(0))
        self.register_buffer("inputs", torch.empty(0, dtype=torch.int64))  # (tasks,), of each stream
        self.register_buffer("temperature", torch.ones(()))
        self.outputs: list[int] = []
        """Classes of each task."""
        self.last: Fit | None = None
        """How the last fit went, in this process."""

    def add_task(self, classes: int) -> None:
        """Outputs for one more task; until the next fit it has no answers."""
        self.outputs.append(classes)

    @property
    def fitted(self) -> bool:
        """Whether it answers for all tasks there are: not while one is learnt, and not if there is but one."""
        return len(self.bias) == sum(self.outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """log p(y|x) of all classes seen, (B, classes).

        ``inputs`` (B, inputs + classes): what is read of all streams side by side, and then the logits of all heads.
        """
        return (F.linear(inputs, self.weight, self.bias) / self.temperature).log_softmax(1)

    @property
    def macs(self) -> list[int]:
        """Multiply-accumulates of an image when there were 1, 2, ... tasks; one task need not be found."""
        tasks = range(1, max(1, len(self.inputs)) + 1)
        classes = [sum(self.outputs[:t]) for t in tasks]
        return [0 if t == 1 else (int(self.inputs[:t].sum()) + c) * c for t, c in zip(tasks, classes, strict=True)]

    @torch.no_grad()
    def fit(self, inputs: Tensor, y: Tensor, image: Tensor) -> Fit:
        """Solve for inputs (N, D) of classes ``y`` (N,); rows of one ``image`` (N,) are never apart.

        The last inputs are the logits of all heads.
        """
        began, classes = time.monotonic(), sum(self.outputs)
        left_out = _left_out(y, image)
        chosen = _choose(inputs, y, left_out, classes) if left_out.any() else (*UNCHOSEN, float("nan"))
        alpha, temperature, accuracy = chosen
        weight, bias = Ridge(inputs, y, classes).weights(alpha)
        where = self.temperature.device  # of the network; the inputs may be elsewhere
        self.weight, self.bias = weight.to(where), bias.to(where)
        self.temperature.fill_(temperature)
        self.last = Fit(alpha, temperature, accuracy, inputs.shape[1], len(y), time.monotonic() - began)
        return self.last

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        # The buffers take the size of what is loaded: each fit has another.
        take_sizes(self, state, prefix, ("weight", "bias", "inputs"))
        super()._load_from_state_dict(state, prefix, *args)


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
        solution = self.solution(alpha).to(self.x)
        weight = ((self.x.T @ solution if self.in_images else solution) * self.scale[:, None]).T
        return weight, self.centre - weight @ self.mean


def _choose(inputs: Tensor, y: Tensor, left_out: Tensor, classes: int) -> tuple[float, float, float]:
    """alpha and temperature of the least loss on the rows left out, and accuracy there."""
    problem, target = Ridge(inputs[~left_out], y[~left_out], classes), y[left_out]
    seen = problem.products(inputs[left_out])
    tries = []
    for alpha in ALPHAS:
        scores = problem.scores(seen, alpha)
        loss, temperature = min((float(F.cross_entropy(scores / t, target)), t) for t in TEMPERATURES)
        tries.append((loss, alpha, temperature, float((scores.argmax(1) == target).double().mean())))
    _, alpha, temperature, accuracy = min(tries)
    return alpha, temperature, accuracy


def _left_out(y: Tensor, image: Tensor) -> Tensor:
    """Rows of every ``FOLD``th image of each class, at least of one; (N,) bool. A class's only image stays."""
    chosen = torch.zeros(len(y), dtype=torch.bool, device=y.device)
    for label in torch.unique(y):
        images = torch.unique(image[y == label])
        if len(images) > 1:
            chosen |= torch.isin(image, images[min(FOLD, len(images)) - 1 :: FOLD])
    return chosen


def side_by_side(streams: Sequence[Tensor], widths: Sequence[int]) -> tuple[list[Tensor], Tensor]:
    """What ``streams`` hold, taken apart: features (B, F) of each, and all that is read of them, (B, inputs)."""
    features = [stream[:, :width] for stream, width in zip(streams, widths, strict=True)]
    return features, torch.cat([stream[:, width:] for stream, width in zip(streams, widths, strict=True)], dim=1)
