"""The network that every method learns with: a backbone and a head per task, made anew from a few numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from lockgate.backbones.base import Backbone
from lockgate.config import AugmentConfig
from lockgate.layers.init import Init, Linear
from lockgate.layers.norm import SharedNorm
from lockgate.layers.plain import LayerFactory, PlainConv2d, PlainLinear
from lockgate.memory.base import Memory
from lockgate.training.phase import TrainableModule


@dataclass(frozen=True)
class Context:
    """What a method is made of: everything that its constructor is given."""

    backbone: Backbone
    options: Any
    """An instance of the method's ``Options``."""
    image_shape: tuple[int, int, int]
    """(C, H, W) of every image it will see."""
    standardise: bool = True
    """Whether to standardise images by the first task's mean and standard deviation."""
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    """How images vary while they are learnt from; the loop does it for those of the task."""
    tasks: int = 1
    """How many tasks are expected."""
    plain_backbone: Callable[[float], Backbone] | None = None
    """Makes a network of the same kind without gates, at a share of its width; None: it is of another make."""


class Standardise(nn.Module):
    """uint8 images to floats: scaled to [0, 1], and standardised by channel once ``fit`` has been called."""

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, channels, 1, 1))
        self.register_buffer("std", torch.ones(1, channels, 1, 1))

    def fit(self, parts: Iterable[Tensor]) -> None:
        """Take mean and standard deviation of images (N, C, H, W) uint8 in parts: by counting pixels, exactly."""
        counts = torch.zeros(self.mean.shape[1], 256, dtype=torch.float64)
        for x in parts:
            counts += torch.stack([torch.bincount(x[:, c].flatten().cpu(), minlength=256) for c in range(x.shape[1])])
        level, images = torch.arange(256, dtype=torch.float64) / 255, counts.sum(1)
        mean = counts @ level / images
        std = ((counts * (level - mean[:, None]).square()).sum(1) / (images - 1)).sqrt()
        self.mean.copy_(mean[:, None, None])
        self.std.copy_(std.clamp(min=1e-3)[:, None, None])  # a constant channel stays finite

    def set(self, mean: Sequence[float], std: Sequence[float]) -> None:
        """Take these, of values in [0, 1]; one for all channels, or one for each."""
        self.mean.copy_(torch.tensor(mean).reshape(1, -1, 1, 1))
        self.std.copy_(torch.tensor(std).reshape(1, -1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) uint8 to float."""
        return (x.float() / 255 - self.mean) / self.std  # older exporters cannot divide bytes


class MultiHeadNetwork(TrainableModule):
    """A backbone with a head per task. What a head reads of the backbone is the features of its task's stream."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.backbone = context.backbone
        self.options = context.options
        self.image_shape = context.image_shape
        self.augment = context.augment
        self.input = Standardise(context.image_shape[0])
        self.standardise = context.standardise
        if self.backbone.preprocessing is not None:  # of the weights that it was given
            self.input.set(self.backbone.preprocessing.mean, self.backbone.preprocessing.std)
            self.standardise = False
        self.heads = nn.ModuleList()
        self.widths: list[list[int]] = []
        """Of the backbone's sets of channels, when each task began."""
        self.memory: Memory | None = None
        """What the method keeps of past tasks."""

    @classmethod
    def layer_factory(cls, init: Init, options: Any) -> LayerFactory:
        """The layers to build this method's backbone from."""
        return LayerFactory(
            conv=functools.partial(PlainConv2d, init=init),
            linear=functools.partial(PlainLinear, init=init),
            norm=SharedNorm,
        )

    @classmethod
    def check_backbone(cls, backbone: Backbone) -> list[str]:
        """What keeps this method from working on ``backbone``; empty: nothing. Asked before anything is trained."""
        return []

    def add_task(self, classes: int) -> None:
        """A head (and whatever the backbone keeps per task) for one more task; earlier heads stop learning."""
        self.widths.append(self.backbone.widths())
        self.backbone.add_task()
        self.heads.requires_grad_(False)
        self.heads.append(Linear(self.backbone.features, classes))

    def logits(self, x: Tensor, task: int) -> Tensor:
        """Logits (B, classes) of one task's head on its stream."""
        out: Tensor = self.heads[task](self.backbone(self.input(x), task).features)
        return out

    # -- restoring ---------------------------------------------------------------------------------------------------

    def structure(self) -> list[dict[str, Any]]:
        """Classes of every task, and the widths of the backbone at its time; JSON."""
        return [{"classes": head.out_features, "widths": w} for head, w in zip(self.heads, self.widths, strict=True)]

    def rebuild(self, structure: list[dict[str, Any]]) -> None:
        """Make a fresh method's modules those of ``structure``; the values come with ``load_state_dict``."""
        for entry in structure:
            self.rebuild_task(entry)
            if self.memory is not None:
                self.memory.rebuild(self.image_shape, entry["classes"])

    def rebuild_task(self, entry: dict[str, Any]) -> None:
        """The modules of one more task."""
        self.backbone.grow(entry["widths"])
        self.add_task(entry["classes"])
