"""slda-ridge, times a ridge regression on products of channels: what occurs together counts too.

    f_p     channels of one map at place p, (C,); C beyond ``channels`` are summed into as many, with random signs
    B       upper triangle of the mean over p of f_p f_p^T: bilinear pooling (Lin, RoyChowdhury and Maji, ICCV 2015)
    u       sign(B) sqrt(|B|), divided by its length, as there
    answer  softmax(slda(z) / T1 + ridge(z) / T2 + ridge(u) / T3), the first two as of slda-ridge, z too

A mean says that there was something shiny and something round, but not whether it was the same thing. The map is the
last one before the network's last reduction: later ones have few places left. Summing channels into fewer is the count
sketch of compact bilinear pooling (Gao, Beijbom, Zhang and Darrell, CVPR 2016), here of channels.

Of u as of z counts, sums and products are kept, so slda-ridge's promises stay: no image is kept, nothing depends on
the order of images, and past answers, the task given, are the same bits for ever. T3 is chosen as T1 and T2 are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.config import option
from lockgate.layers.buffers import take_sizes
from lockgate.layers.pool import root
from lockgate.methods.base import Context
from lockgate.methods.closed_form import collect, held_out_features, pooled_layers
from lockgate.methods.slda import SLDAOptions
from lockgate.methods.slda_ridge import SLDARidge, averaged, ridge_weights
from lockgate.methods.statistics import Statistics
from lockgate.methods.temperature import temperature_of
from lockgate.training.phase import evaluating
from lockgate.types import Examples, Task

RIDGE = 0.1
"""a of the regression on u. From 0.03 to 1 it hardly matters (docs/photos.md), and to try several takes time."""
UNCHOSEN = 0.01
"""T3 where no task has two classes and held-out images to choose by."""


@dataclass(frozen=True)
class SLDABilinearOptions(SLDAOptions):
    """Options of slda-bilinear."""

    channels: int = option(
        80, "Channels of the map whose products are read, at most: k give k (k + 1) / 2 numbers.", ge=2
    )


class Bilinear(nn.Module):
    """u of a map (B, C[, H, W])."""

    mix: Tensor

    def __init__(self, channels: int, most: int) -> None:
        super().__init__()
        self.register_buffer("mix", sketch(channels, min(channels, most)))  # (C, k)

    @property
    def width(self) -> int:
        """How many numbers u has."""
        k = self.mix.shape[1]
        return k * (k + 1) // 2

    def forward(self, h: Tensor) -> Tensor:
        """(B, C[, H, W]) to (B, width)."""
        places = h.flatten(2) if h.dim() > 2 else h[:, :, None]  # (B, C, P)
        few = self.mix.T @ places  # (B, k, P)
        among = few @ few.transpose(1, 2) / few.shape[2]  # (B, k, k)
        row, column = torch.triu_indices(*among.shape[1:], device=h.device)
        return F.normalize(root(among[:, row, column]), dim=1)


class SLDABilinear(SLDARidge):
    """slda-ridge, and a ridge regression of one-hot classes on products of channels."""

    Options: ClassVar[type[Any]] = SLDABilinearOptions
    version: ClassVar[int] = 1
    options: SLDABilinearOptions
    product_temperatures: Tensor

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        with torch.no_grad(), evaluating(self):
            x = torch.zeros(1, *self.image_shape, dtype=torch.uint8)
            found = middle_map(*self.backbone.read_given(self.input(x)))
        self.bilinear = Bilinear(found.shape[1], self.options.channels)
        self.products = Statistics(self.bilinear.width, True)
        self.register_buffer("product_temperatures", torch.empty(0, 1, dtype=torch.float64))  # (tasks, 1): T3
        self.means_width = self.width
        self.width += self.bilinear.width
        self.weight = self.weight.new_empty(0, self.width)

    def compute(self, x: Tensor) -> Tensor:
        """z and u side by side (B, D), from one pass."""
        features, maps = self.backbone.read_given(self.input(x))
        z = cast(Tensor, self.transform(pooled_layers(self, features, maps)))
        return torch.cat([z, self.bilinear(middle_map(features, maps))], dim=1)

    def count(self, examples: Examples, classes: int, again: bool = False) -> None:
        """Into the sums of z, and into those of u."""
        with self.reading_once():
            collect(self, self.statistics, examples, classes, again, slice(0, self.means_width))
            collect(self, self.products, examples, classes, again, slice(self.means_width, None))

    def solve(self, task: Task) -> tuple[Tensor, Tensor]:
        """The sum of all three, tempered; the first time for a task, its held-out images choose before."""
        weight, bias = super().solve(task)
        other, shift = self.solve_products()
        if len(self.product_temperatures) < len(self.heads):
            chosen = self._choose_of_products(task, other, shift)
            self.product_temperatures = torch.cat([self.product_temperatures, weight.new_tensor([[chosen]])])
        temperature = self.product_temperature
        return weight + other / temperature, bias + shift / temperature

    def solve_slda(self, task: Task) -> tuple[Tensor, Tensor]:
        """On z; u weighs nothing."""
        weight, bias = super().solve_slda(task)
        return F.pad(weight, (0, self.bilinear.width)), bias

    def solve_ridge(self, ridge: float) -> tuple[Tensor, Tensor]:
        """On z; u weighs nothing."""
        weight, bias = super().solve_ridge(ridge)
        return F.pad(weight, (0, self.bilinear.width)), bias

    def solve_products(self) -> tuple[Tensor, Tensor]:
        """On u; z weighs nothing."""
        weight, bias = ridge_weights(self.products, RIDGE)
        return F.pad(weight, (self.means_width, 0)), bias

    @property
    def product_temperature(self) -> float:
        """T3: the geometric mean of what tasks have chosen."""
        return averaged(self.product_temperatures, [UNCHOSEN])[0]

    def _choose_of_products(self, task: Task, weight: Tensor, bias: Tensor) -> float:
        """On held-out images that are not counted yet, among all classes seen."""
        if len(bias) < 2 or not len(task.val):
            return float("nan")
        scores = F.linear(held_out_features(self, task).to(weight), weight, bias).cpu()
        return temperature_of(scores, task.val.y + len(bias) - len(task.classes))

    def promised(self, task: int) -> dict[str, Tensor]:
        """As of slda-ridge, and what was counted of u; with the first task, how channels are summed."""
        classes = [entry["classes"] for entry in self.structure()]
        mine = slice(sum(classes[:task]), sum(classes[: task + 1]))
        found = {**super().promised(task), "product_temperatures": self.product_temperatures[task]}
        found |= {"products.counts": self.products.counts[mine], "products.sums": self.products.sums[mine]}
        return found | ({"bilinear.mix": self.bilinear.mix} if task == 0 else {})

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        take_sizes(self, state, prefix, ("product_temperatures",))
        super()._load_from_state_dict(state, prefix, *args)


def sketch(channels: int, few: int) -> Tensor:
    """Which of ``few`` sums each channel goes into, and with which sign, (channels, few); each gets one at least."""
    into = torch.cat([torch.arange(few), torch.randint(few, (channels - few,))])
    signs = torch.randint(2, (channels,)) * 2.0 - 1
    return F.one_hot(into, few) * signs[:, None]


def middle_map(features: Tensor, maps: dict[str, Tensor]) -> Tensor:
    """The last map with more places than the last one has; where none has, the last, or the features."""
    whole: Sequence[Tensor] = [h for h in maps.values() if h.dim() == 4]
    if not whole:
        return features
    least = whole[-1].shape[2] * whole[-1].shape[3]
    return next((h for h in reversed(whole) if h.shape[2] * h.shape[3] > least), whole[-1])
