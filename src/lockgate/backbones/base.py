"""What every backbone gives: pooled features with the gates that opened, and how its channels hang together."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lockgate.backbones.preprocessing import Preprocessing
from lockgate.layers.lock import Lockable
from lockgate.layers.per_task import shared_modules


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

    @property
    def width(self) -> int:
        """How many channels there are now."""
        width: int = self.writers[0].width
        return width

    def importance(self, heads: Sequence[Tensor] = ()) -> Tensor:
        """How much each channel (c,) matters: the norm of what writes it times that of what reads it.

        ``heads``: weights (classes, c) that read the channels which no layer reads. Without them, of what writes alone.
        """
        readers = [reader.weight for reader in self.readers] or heads
        written: Tensor = torch.stack([writer.weight.flatten(1).norm(dim=1) for writer in self.writers]).norm(dim=0)
        if not readers:
            return written
        read: Tensor = torch.stack([weight.transpose(0, 1).flatten(1).norm(dim=1) for weight in readers]).norm(dim=0)
        return written * read

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


@contextmanager
def recorded(layers: Mapping[str, nn.Module]) -> Iterator[dict[str, Tensor]]:
    """Within, the maps that the layers of a backbone give are noted, by name, in whatever order they are computed.

    Those that they give this thread: another may ask the same network at the same time.
    """
    maps: dict[str, Tensor] = {}
    mine = threading.get_ident()

    def note(name: str, layer: nn.Module) -> Any:
        return layer.register_forward_hook(
            lambda _, __, out: maps.__setitem__(name, out[0]) if threading.get_ident() == mine else None
        )

    handles = [note(name, layer) for name, layer in layers.items()]
    try:
        yield maps
    finally:
        for handle in handles:
            handle.remove()


class Backbone(nn.Module):
    """Pixels to features. Sub-classes fill ``layers``, ``sources`` and ``channels`` while they are built."""

    preprocessing: Preprocessing | None = None
    """What images must be like, where given weights want it."""
    given: bool = False
    """Whether it came with weights from elsewhere; else it starts anew, at random."""
    _features: int
    """The width of its features, set where no channels are told."""

    def __init__(self) -> None:
        super().__init__()
        self.layers: dict[str, nn.Module] = {}
        """Convolutions and linear layers by name, in the order in which their gates are returned."""
        self.sources: list[int | None] = []
        """For each layer, the index of the layer whose gate decides which of its inputs are open; None: all are."""
        self.channels: list[Channels] = []

    @property
    def features(self) -> int:
        """Width of the pooled features now: of the last channels, or as found where no channels are told."""
        return self.channels[-1].width if self.channels else self._features

    def forward(self, x: Tensor, task: int) -> Stream:
        """Run the stream of ``task`` on standardised images (B, C, H, W)."""
        raise NotImplementedError

    def read(self, x: Tensor, task: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Features (B, F) of a stream, and the maps (B, C[, H, W]) of all its layers, by name."""
        with recorded(self.layers) as maps:
            features: Tensor = self(x, task).features
        return features, {name: maps[name] for name in self.layers}

    def read_given(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """As ``read``, of the network without anything of a task's own: for methods that leave it as it is."""
        return self.read(x, 0)

    @property
    def depth(self) -> int:
        """How many maps are read of one stream."""
        return len(self.layers)

    def norms(self, task: int) -> list[nn.Module]:
        """Every norm of a task's stream but those of its gates."""
        return [norm.norms[task] for group in self.channels for norm in group.norms]

    def keep_prefix(self, folder: Path) -> bool:
        """Compute what never changes once an image, and keep it in ``folder``; False where there is nothing like it."""
        return False

    def constants(self) -> dict[str, Tensor]:
        """The part of the state that was given and that no task ever changes."""
        return {}

    def open_features(self, task: int) -> Tensor:
        """The features of a gated stream that can be anything but zero, as an index."""
        last: Any = list(self.layers.values())[-1]
        index: Tensor | None = last.writes.get(task)
        return torch.arange(last.gate(task).width, device=last.weight.device) if index is None else index

    def add_task(self) -> None:
        """Gates and norms for one more task."""
        for module in dict.fromkeys(shared_modules(self)):  # a module that stands in two places is one
            add: Any = getattr(module, "add_task", None)
            if module is not self and add is not None:
                add()

    def route(self, tasks: Iterable[int]) -> None:
        """Tell every layer which channels the streams of ``tasks`` read and write."""
        for task in tasks:
            for group in self.channels:
                group.route(task)

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
        return [group.width for group in self.channels]

    def grow(self, widths: list[int]) -> None:
        """Widen every set of channels to at least ``widths``."""
        for group, now, wanted in zip(self.channels, self.widths(), widths, strict=True):
            if wanted > now:
                _widen(group, wanted - now)


def as_stream(last: Any, features: Tensor, task: int, gates: list[Tensor | None]) -> Stream:
    """The result of a pass: pooled features of layer ``last`` at full width, and the gates there were."""
    return Stream(last.spread(features, task), tuple(gate for gate in gates if gate is not None))


def widths_with_free(channels: list[Channels], share: float, base: list[int]) -> list[int]:
    """The widths at which every set of channels has at least ``share`` of its ``base`` width free."""
    wanted = []
    for group, first in zip(channels, base, strict=True):
        free = min(int((~layer.locked).sum()) for layer in group.writers if isinstance(layer, Lockable))
        wanted.append(group.width + max(0, math.ceil(share * first) - free))
    return wanted


def _widen(group: Channels, extra: int) -> None:
    for writer in group.writers:
        writer.grow_outputs(extra)
    for reader in group.readers:
        reader.grow_inputs(extra)
    for norm in group.norms:
        norm.channels += extra
