"""A closed-form read-out of all streams, in the place of the paper's task classifier (Eq. 7).

The paper's classifier reads the pooled last layer of every stream, which is made to tell the classes of its own task
apart and little else. What earlier layers know, and where in the image, is thrown away. Here every gated layer of every
stream is read, pooled to a small grid, and a ridge regression to one-hot classes finds class and task at once:

inputs    z = (roots of pooled maps of all gated layers of streams 1 .. t; logits of heads 1 .. t), standardised;
              the logits together weigh as much as all the rest; of the maps only the ``MOST_INPUTS`` that
              weigh most in a fit to all, so that a task adds as many weights late as early
scores    s = W z + b,   W = argmin  sum_i w_i ||y_i - W z_i||^2 + alpha ||W||^2,   w_i: every class the same weight
answers   p(y|x) = softmax(s / T),   p(t|x): summed over the classes of t

Streams are sealed: z never changes, no optimiser is needed, and the same images give the same bits. alpha and T are
chosen on images that are left out of a first fit. So is how sure it must be for its answer to stand without that of a
companion (``companion.py``).
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
from lockgate.methods.ccgn.ridge import Ridge, most_telling

IMAGES = 2048
"""How many images it is fitted to, more or less: stored ones are repeated, each time varied as in training."""
CELLS = 48
"""Cells of all layers' grids together, more or less: 4x4 in each of three layers, 1x1 in each of twenty."""
ALPHAS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Candidates, by the number of images."""
TEMPERATURES = tuple(0.02 * 1.25**i for i in range(24))
FOLD = 4
"""One in so many images of a class is left out of the first fit."""


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
    sure: float
    """Of how large a share of the images left out it was sure."""
    seconds: float

    def text(self) -> str:
        """One line for a person."""
        judged = (
            "too few images to leave any out"
            if math.isnan(self.accuracy)
            else f"{self.accuracy:.4f} right of those left out, sure of {100 * self.sure:.0f} %"
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
    kept: Tensor
    temperature: Tensor
    bar: Tensor
    asks: Tensor

    def __init__(self, missed: float = 0.0) -> None:
        super().__init__()
        self.missed = missed
        """Of the images it gets wrong, the share that it may be sure of."""
        self.register_buffer("weight", torch.empty(0, 0))  # (classes seen, inputs kept + classes seen)
        self.register_buffer("bias", torch.empty(0))
        self.register_buffer("inputs", torch.empty(0, dtype=torch.int64))  # (tasks,), of each stream
        self.register_buffer("kept", torch.empty(0, dtype=torch.int32))  # which of these it reads, ascending
        self.register_buffer("temperature", torch.ones(()))
        self.register_buffer("bar", torch.tensor(torch.inf))  # log p(y|x) from above which on it is sure
        self.register_buffer("asks", torch.empty(0))  # (tasks,), of what share of images it was not, after each task
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
        chosen = _of(inputs, self.kept, len(self.bias))
        return (F.linear(chosen, self.weight, self.bias) / self.temperature).log_softmax(1)

    def unsure(self, told: Tensor) -> Tensor:
        """Of which images, (B,) bool, by what it has ``told`` of them: log p(y|x), (B, classes)."""
        return told.amax(1) <= self.bar

    def part(self, start: int, count: int) -> Tensor:
        """Its weights (classes, count) on so many inputs from ``start`` on: zero for those that are not kept."""
        inside = ((self.kept >= start) & (self.kept < start + count)).nonzero().flatten()
        found = self.weight.new_zeros(len(self.bias), count)
        return found.index_copy_(1, self.kept[inside].long() - start, self.weight[:, inside])

    @property
    def macs(self) -> list[int]:
        """Multiply-accumulates of an image when there were 1, 2, ... tasks; one task need not be found."""
        tasks = range(1, max(1, len(self.inputs)) + 1)
        classes = [sum(self.outputs[:t]) for t in tasks]
        read = [min(len(self.kept), int(self.inputs[:t].sum())) for t in tasks]
        return [0 if t == 1 else (r + c) * c for t, r, c in zip(tasks, read, classes, strict=True)]

    @torch.no_grad()
    def fit(self, inputs: Tensor, y: Tensor, image: Tensor) -> Fit:
        """Solve for inputs (N, D) of classes ``y`` (N,); rows of one ``image`` (N,) are never apart.

        The last inputs are the logits of all heads.
        """
        began, classes = time.monotonic(), sum(self.outputs)
        left_out = _left_out(y, image)
        chosen = _choose(inputs, y, left_out, classes) if left_out.any() else UNCHOSEN
        kept = most_telling(inputs, y, classes)
        weight, bias = Ridge(_of(inputs, kept, classes), y, classes).weights(chosen.alpha)
        where = self.temperature.device  # of the network; the inputs may be elsewhere
        self.weight, self.bias, self.kept = weight.to(where), bias.to(where), kept.to(where)
        self.temperature.fill_(chosen.temperature)
        bar = chosen.bar(self.missed)
        self.bar.fill_(bar)
        sure = float((chosen.told.amax(1) > bar).double().mean()) if len(chosen.told) else 0.0
        asks = torch.ones(len(self.outputs), device=where)
        asks[: len(self.asks)] = self.asks
        asks[-1] = 1 - sure
        self.asks = asks
        seconds = time.monotonic() - began
        self.last = Fit(chosen.alpha, chosen.temperature, chosen.accuracy, weight.shape[1], len(y), sure, seconds)
        return self.last

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        weight = state.get(prefix + "weight")
        if weight is not None and prefix + "kept" not in state:  # of a time when all inputs were read
            state[prefix + "kept"] = torch.arange(weight.shape[1] - len(weight), dtype=torch.int32)
        if prefix + "bar" not in state:  # of a time when it was never sure
            state[prefix + "bar"] = torch.tensor(torch.inf)
            state[prefix + "asks"] = torch.ones(len(self.outputs))
        # The buffers take the size of what is loaded: each fit has another.
        take_sizes(self, state, prefix, ("weight", "bias", "inputs", "kept", "asks"))
        super()._load_from_state_dict(state, prefix, *args)


@dataclass(frozen=True)
class Choice:
    """alpha and temperature, and what they gave for the images left out of that fit."""

    alpha: float
    temperature: float
    told: Tensor  # (M, classes), log p(y|x)
    right: Tensor  # (M,) bool

    @property
    def accuracy(self) -> float:
        """Share of right answers; nan where none was judged."""
        return float(self.right.double().mean())

    def bar(self, missed: float) -> float:
        """The log p(y|x) above which lie no more wrong answers than the share ``missed`` of the wrong ones, or of the
        right ones where these are fewer: a read-out that is mostly wrong is to be asked beside another.

        Where none is wrong (or none may be missed) nothing says how sure is sure enough: then none is.
        """
        wrong = self.told[~self.right].amax(1).sort(descending=True).values
        allowed = math.floor(missed * min(len(wrong), int(self.right.sum())))
        return float(wrong[allowed]) if missed and len(wrong) else math.inf


UNCHOSEN = Choice(1.0, 0.1, torch.empty(0, 1), torch.empty(0, dtype=torch.bool))
"""Where no image can be left out."""


def _choose(inputs: Tensor, y: Tensor, left_out: Tensor, classes: int) -> Choice:
    """alpha and temperature of the least loss on the rows left out.

    The inputs are those that the others would keep: the rows left out have no say in that either.
    """
    kept = most_telling(inputs[~left_out], y[~left_out], classes)
    problem, target = Ridge(_of(inputs[~left_out], kept, classes), y[~left_out], classes), y[left_out]
    seen = problem.products(_of(inputs[left_out], kept, classes))
    tries = []
    for alpha in ALPHAS:
        scores = problem.scores(seen, alpha)
        tries.append(min((float(F.cross_entropy(scores / t, target)), alpha, t) for t in TEMPERATURES))
    _, alpha, temperature = min(tries)
    told = (problem.scores(seen, alpha) / temperature).log_softmax(1).float()
    return Choice(alpha, temperature, told, told.argmax(1) == target)


def _of(inputs: Tensor, kept: Tensor, classes: int) -> Tensor:
    """The inputs ``kept``, and the logits of all heads: (N, kept + classes)."""
    if len(kept) == inputs.shape[1] - classes:
        return inputs
    return torch.cat([inputs.index_select(1, kept), inputs[:, -classes:]], dim=1)


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
