"""What every layer of a network makes of images, not only the last: recorded while a stream runs, pooled to vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.backbones.base import Backbone


@contextmanager
def recorded(layers: Mapping[str, nn.Module]) -> Iterator[dict[str, Tensor]]:
    """Within, the maps that the layers of a backbone give are noted, by name, in whatever order they are computed."""
    maps: dict[str, Tensor] = {}

    def note(name: str, layer: nn.Module) -> Any:
        return layer.register_forward_hook(lambda _, __, out: maps.__setitem__(name, out[0]))

    handles = [note(name, layer) for name, layer in layers.items()]
    try:
        yield maps
    finally:
        for handle in handles:
            handle.remove()


def layer_maps(backbone: Backbone, x: Tensor, task: int) -> tuple[Tensor, list[Tensor]]:
    """Features (B, F) of the stream of ``task`` on standardised images ``x``, and the map of each layer, in order.

    The last map, pooled, is the features; of a network that names no layers, the features are all there is.
    """
    with recorded(backbone.layers) as maps:
        features: Tensor = backbone(x, task).features
    return features, [maps[name] for name in backbone.layers] or [features]


def pooled(h: Tensor, grid: int) -> Tensor:
    """A map (B, C[, H, W]) pooled to at most ``grid`` x ``grid`` cells, channel by channel, (B, C * cells)."""
    if h.dim() == 2:
        return h
    return F.adaptive_avg_pool2d(h, (min(grid, h.shape[2]), min(grid, h.shape[3]))).flatten(1)
