"""What compact streams add to the scores of a read-out, layer by layer.

A read-out is linear, so its scores are a sum over streams and layers. Each stream adds its own part, from the channels
it has: a channel that it lacks is zero and would add nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.backbones.base import Backbone, recorded
from lockgate.inference.asleep import FEWEST, columns, held
from lockgate.inference.compact import filled, frozen
from lockgate.inference.grid import cells
from lockgate.layers.pool import pooled, root
from lockgate.methods.ccgn.class_incremental import ClassIncremental
from lockgate.methods.ccgn.readout import ReadOut, grid_of

Weights = dict[str, Tensor]
"""By layer, what each cell of each channel counts for each class, (classes, channels, cells)."""


class Reading(nn.Module):
    """A read-out of a network of compact layers."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.grid, self.classes = grid_of(len(weights)), len(next(iter(weights.values())))
        self.names = [name for name, weight in weights.items() if weight.any()]
        self.layers = nn.ParameterList([frozen(_filled(weights[name])) for name in self.names])

    def forward(self, maps: Mapping[str, Tensor]) -> Tensor:
        """Scores (B, classes), from the map of each layer."""
        if not self.names:  # it keeps nothing of this stream
            some = next(iter(maps.values()))
            return some.new_zeros(len(some), self.classes)
        read = [maps[name] for name in self.names]
        pairs = zip(self.layers, read, strict=True)
        weight = torch.cat([columns(weight, held(h)).flatten(1) for weight, h in pairs], dim=1)
        inputs = torch.cat([cells(h, self.grid) for h in read], dim=1)  # (B, channels and cells of all layers)
        if not torch.compiler.is_compiling() and len(inputs) >= FEWEST:  # of many images, roots cost more than to look
            kept = weight.any(0).nonzero().flatten()
            inputs, weight = inputs.index_select(1, kept), weight.index_select(1, kept)
        return F.linear(root(inputs), weight)


class Reader(nn.Module):
    """A network of compact layers, and what is read of it."""

    def __init__(self, backbone: Backbone, reading: Reading | None) -> None:
        super().__init__()
        self.backbone, self.reading = backbone, reading

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None, tuple[Tensor, ...]]:
        """Features (B, F), scores (B, classes) if a read-out reads it, and gates that were wanted."""
        if self.reading is None:
            stream = self.backbone(x, 0)
            return stream.features, None, stream.gates
        with recorded(self.backbone.layers) as maps:
            stream = self.backbone(x, 0)
        return stream.features, self.reading(maps), stream.gates


@torch.no_grad()
def weights_of(learner: ClassIncremental, readout: ReadOut) -> list[Weights]:
    """Of each stream, at the channels that it can open; divided by the temperature."""
    image = torch.zeros(1, *learner.image_shape, dtype=torch.uint8, device=learner.input.mean.device)
    standard, grid = learner.input(image), grid_of(len(learner.backbone.layers))
    start, found = 0, []
    for task in range(len(learner.heads)):
        with recorded(learner.backbone.layers) as maps:
            learner.backbone(standard, task)
        weights: Weights = {}
        for name in learner.backbone.layers:
            count = pooled(maps[name], grid).shape[1]
            part = readout.part(start, count) / readout.temperature
            weights[name] = part.reshape(len(part), maps[name].shape[1], -1)
            start += count
        found.append(weights)
    return found


def cut_weights(weights: Weights, backbone: Backbone, whole: Sequence[Tensor], keep: Sequence[Tensor]) -> Weights:
    """The part of ``weights`` for the channels ``keep`` of each set, of those that are there, ``whole``."""
    places = [torch.searchsorted(all_, some) for all_, some in zip(whole, keep, strict=True)]
    group: Mapping[int, int] = {id(w): g for g, channels in enumerate(backbone.channels) for w in channels.writers}
    layers: Mapping[str, Any] = backbone.layers
    return {name: weight.index_select(1, places[group[id(layers[name])]]) for name, weight in weights.items()}


def fused_weights(streams: Sequence[Weights]) -> Weights:
    """Of all streams side by side, each filled up."""
    return {name: torch.cat([_filled(stream[name]) for stream in streams], dim=1) for name in streams[0]}


def _filled(weight: Tensor) -> Tensor:
    """With zeros for the channels that compact layers are filled up with."""
    return F.pad(weight, (0, 0, 0, filled(weight.shape[1]) - weight.shape[1]))
