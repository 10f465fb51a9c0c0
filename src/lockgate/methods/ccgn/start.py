"""Where free filters begin: as those of a plain network that knows the tasks so far.

The paper re-initialises what a task leaves free, so every stream but for what is locked begins at random: its filters
meet two classes and nothing else. A companion has met all tasks. Its channels are laid into the free ones of the gated
network, layer by layer, so that the new stream begins as the companion with the locked filters beside it; what its
gates then leave of that is learnt, locked and sealed as ever. Locked filters are not touched.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from lockgate.backbones.base import Backbone, Channels
from lockgate.methods.ccgn.companion import Companion


class Place(NamedTuple):
    """Which channels of a plain network lie where in a set of the gated one, each (n,)."""

    of: Tensor
    at: Tensor


@torch.no_grad()
def begin_as(backbone: Backbone, companion: Companion, task: int) -> None:
    """Let the free filters and the norms of ``task``'s stream begin as the ``companion``'s.

    Where fewer channels are free than it has, those that matter most to it are taken. They read each other as they did,
    and begin with zero weights on all other channels. Free filters that are left over stay as they are.
    """
    plain = companion.backbone
    places: dict[int, Place] = {}  # by the layer that writes the channels
    for mine, theirs in zip(backbone.channels, plain.channels, strict=True):
        place = _place(mine, theirs.importance([cast(nn.Linear, head).weight for head in companion.heads[:task]]))
        places.update({id(writer): place for writer in mine.writers})
        for norm, other in zip(mine.norms, theirs.norms, strict=True):
            _copy_norm(norm.norms[task], other, place)
    layers: list[Any] = list(backbone.layers.values())
    for layer, other, source in zip(layers, plain.layers.values(), backbone.sources, strict=True):
        _copy_filters(layer, other, places[id(layer)], None if source is None else places[id(layers[source])])


def _place(channels: Channels, importance: Tensor) -> Place:
    """The channels that most writers have free, for the most important ones; both in ascending order."""
    free = torch.stack([~writer.locked for writer in channels.writers]).sum(0)  # (c,), writers
    freest = free.sort(descending=True, stable=True).indices[: min(len(importance), int((free > 0).sum()))]
    most = importance.sort(descending=True, stable=True).indices[: len(freest)]
    return Place(most.sort().values, freest.sort().values)


def _copy_filters(layer: Any, other: Any, written: Place, read: Place | None) -> None:
    """Rows of ``layer`` that are free, as those of ``other``; ``read``: where its inputs lie, None: as they are."""
    free = ~layer.locked[written.at]
    of, at = written.of[free], written.at[free]
    if read is None:
        layer.weight[at] = other.weight[of]
    else:
        rows = torch.zeros_like(layer.weight[at])
        rows[:, read.at] = other.weight[of][:, read.of]
        layer.weight[at] = rows
    if layer.bias is not None:
        layer.bias[at] = other.bias[of]


def _copy_norm(norm: Any, other: Any, place: Place) -> None:
    """Affine parameters and statistics of the channels that were laid in."""
    for name in ("weight", "bias", "running_mean", "running_var"):
        getattr(norm, name)[place.at] = getattr(other, name)[place.of]
