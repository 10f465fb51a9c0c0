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
from lockgate.inference.asleep import held, widened
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
        self.widths = {name: filled(weights[name].shape[1]) for name in self.names}
        self.layers = nn.ModuleList([LayerReading(_filled(weights[name]).flatten(1)) for name in self.names])

    def forward(self, maps: Mapping[str, Tensor]) -> Tensor:
        """Scores (B, classes), from the map of each layer."""
        if not self.names:  # it keeps nothing of this stream
            some = next(iter(maps.values()))
            return some.new_zeros(len(some), self.classes)
        pairs = zip(self.names, self.layers, strict=True)
        return torch.stack([layer(self._cells(maps[name], self.widths[name])) for name, layer in pairs]).sum(0)

    def _cells(self, h: Tensor, width: int) -> Tensor:
        """A map (B, C, H, W) pooled to (B, width * cells)."""
        return widened(cells(h, self.grid), held(h), width)


class LayerReading(nn.Module):
    """What one pooled map adds to the scores: only the inputs that a read-out keeps are looked at."""

    kept: Tensor | None

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        kept = weight.any(0).nonzero().flatten()
        whole = 2 * len(kept) > weight.shape[1]  # to pick them out would cost more than to multiply by zero
        self.register_buffer("kept", None if whole else kept)
        self.weight = frozen(weight if whole else weight[:, kept])

    def forward(self, x: Tensor) -> Tensor:
        """Scores (B, classes) from (B, channels * cells)."""
        return F.linear(root(x if self.kept is None else x.index_select(1, self.kept)), self.weight)


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
