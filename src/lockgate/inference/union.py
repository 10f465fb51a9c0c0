"""Layers of several streams that read the same, as one that has each of their filters once.

Streams share filters: what a filter gives before its gate is the same for all of them, where no norm of a task's own
follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.inference.compact import Compact, filled

PAYS = 0.75
"""Filters are computed together only if they are fewer than this share of those of all streams."""


class Union(NamedTuple):
    """One layer for several, without their gates."""

    layer: Compact
    places: list[Tensor]
    """Where the filters of each are in it; those that were filled up are any of them: their gates never open."""


def pays(layers: Sequence[Compact]) -> bool:
    """Whether they share so many filters that it pays to compute these once."""
    every = torch.unique(torch.cat([layer.filters for layer in layers]))
    return filled(len(every)) <= PAYS * sum(len(layer.weight) for layer in layers)


def union(layers: Sequence[Compact]) -> Union | None:
    """Of ``layers`` that read the same; None: what they make of it differs, a norm of their own was folded in."""
    first, every = layers[0], torch.unique(torch.cat([layer.filters for layer in layers]))
    weight = first.weight.new_zeros(filled(len(every)), *first.weight.shape[1:])
    bias = first.bias.new_zeros(len(weight))
    places = [torch.searchsorted(every, layer.filters) for layer in layers]
    pairs = list(zip(layers, places, strict=True))
    for layer, place in pairs:
        weight[place], bias[place] = layer.weight[: len(place)], layer.bias[: len(place)]
    if not all(torch.equal(layer.weight[: len(place)], weight[place]) for layer, place in pairs):
        return None
    spread = [F.pad(place, (0, len(layer.weight) - len(place))) for layer, place in pairs]
    return Union(Compact(weight, bias, first.stride, first.padding), spread)
