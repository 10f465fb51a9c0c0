"""What every backbone gives: pooled features with the gates that opened, and how its channels hang together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lockgate.layers.lock import Lockable


class Stream(NamedTuple):
    """One pass of one task's stream."""

    features: Tensor  # (B, F), globally pooled
    gates: tuple[Tensor, ...]  # (B, c_out) for every gated layer, in the order of ``Backbone.layers``


@dataclass
class Channels:
    """Layers that write one set of channels, and layers and norms that read it: they widen together.

    Where there are norms, ``norms[i]`` is what follows ``writers[i]``.
    """

    writers: list[Any]
    readers: list[Any]
    norms: list[Any]

    def route(self, task: int) -> None:
        """Tell all of them which channels the stream of ``task`` holds: what its gates can open, neither pruned nor
        outside its seal. Writers share one answer."""
        gates = [layer.gate(task) for layer in self.writers]
        open_ = torch.stack([gate.seal & ~gate.pruned for gate in gates]).any(0)  # (c,)
        if not open_.any():  # nothing to compute would cut the stream: one filter stays, its gates shut
            open_[0] = True
        index = None if open_.all() else torch.nonzero(open_).flatten()
        for table in [w.writes for w in self.writers] + [r.reads for r in (*self.readers, *self.norms)]:
            if index is None:
                table.pop(task, None)
            else:
                table[task] = index


class Backbone(nn.Module):
    """Pixels to features. Sub-classes fill ``layers``, ``sources`` and ``channels`` while they are built."""

    pretrained: bool = False
    """Whether it came with weights that were learnt before."""

    def __init__(self) -> None:
        super().__init__()
        self.layers: dict[str, nn.Module] = {}
        """Convolutions and linear layers by name, in the order in which their gates are returned."""
        self.sources: list[int | None] = []
        """For each layer, the index of the layer whose gate decides which of its inputs are open; None: all are."""
        self.channels: list[Channels] = []

    @property
    def features(self) -> int:
        """Width of the pooled features now."""
        return self.widths()[-1]

    def forward(self, x: Tensor, task: int) -> Stream:
        """Run the stream of ``task`` on standardised images (B, C, H, W)."""
        raise NotImplementedError

    def add_task(self) -> None:
        """Gates and norms for one more task."""
        for module in self.modules():
            add: Any = getattr(module, "add_task", None)
            if module is not self and add is not None:
                add()

    def route(self, tasks: Iterable[int]) -> None:
        """Tell every layer which channels the streams of ``tasks`` read and write."""
        for task in tasks:
            for group in self.channels:
                group.route(task)

    def as_stream(self, last: Any, features: Tensor, task: int, gates: list[Tensor | None]) -> Stream:
        """The result of a pass: pooled features of layer ``last`` at full width, and the gates there were."""
        return Stream(last.spread(features, task), tuple(gate for gate in gates if gate is not None))

    def add_layer(self, name: str, layer: nn.Module, source: int | None) -> int:
        """Note a layer that was made by the layer factory, and return its index.

        ``source``: the index of the layer whose outputs it reads; None: the image, or whatever has no gates.
        """
        self.layers[name] = layer
        self.sources.append(source)
        return len(self.layers) - 1

    # -- growth ------------------------------------------------------------------------------------------------------

    def widths(self) -> list[int]:
        """The width of every set of channels."""
        return [group.writers[0].width for group in self.channels]

    def grow(self, widths: list[int]) -> None:
        """Widen every set of channels to at least ``widths``."""
        for group, now, wanted in zip(self.channels, self.widths(), widths, strict=True):
            if wanted > now:
                _widen(group, wanted - now)

    def widths_with_free(self, share: float, base: list[int]) -> list[int]:
        """The widths at which every layer has at least ``share`` of its ``base`` width free."""
        wanted = []
        for group, width, first in zip(self.channels, self.widths(), base, strict=True):
            free = min(int((~layer.locked).sum()) for layer in group.writers if isinstance(layer, Lockable))
            wanted.append(width + max(0, math.ceil(share * first) - free))
        return wanted


def _widen(group: Channels, extra: int) -> None:
    for writer in group.writers:
        writer.grow_outputs(extra)
    for reader in group.readers:
        reader.grow_inputs(extra)
    for norm in group.norms:
        norm.channels += extra
