"""What reads the image, computed once for all streams.

Streams share filters: what a filter gives before its gate is the same for all of them, where no norm of a task's own
follows. So of the layer that reads the image each filter that some stream keeps is computed once, and every stream
takes those that it keeps and applies its own gates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.inference.asleep import awake, holding
from lockgate.inference.compact import Compact, filled, rebuilt
from lockgate.inference.cut import CompactStream
from lockgate.layers.plain import Then

AT_ONCE = 5 * 2**20
"""Bytes of maps of the size of the image that are made at a time: more fall out of the processor's caches."""
PAYS = 0.75
"""Filters are computed together only if they are fewer than this share of those of all streams."""


class Member(NamedTuple):
    """What one stream takes of the maps that are computed for all, for some images."""

    gates: Tensor  # (B, 1, n) of 0 and 1, of the filters it takes
    places: Tensor  # (n,), where they are among those of all
    rows: Tensor | None  # (n,), which of its own they are; None: all
    wanted: Tensor | None  # (B,), where a filter that it lacks was wanted


Output = tuple[Tensor, Tensor | None]
"""As of ``Compact``: the gated map, and where a filter that was left out was wanted."""


class Common(nn.Module):
    """The filters that read the image, of all streams: for the images that ``reading`` was given, and no others."""

    def __init__(self, filters: Compact) -> None:
        super().__init__()
        self.filters = filters
        self.readers: list[FromCommon] = []
        self._now: tuple[Tensor, dict[FromCommon, Output]] | None = None  # the images, and what is computed of them

    @contextmanager
    def reading(self, images: Tensor) -> Iterator[None]:
        """Inside, all streams read ``images`` (B, C, H, W)."""
        self._now = (images, {})
        try:
            yield
        finally:
            self._now = None

    def taken(self, reader: FromCommon, x: Tensor, then: Then) -> Output | None:
        """What ``reader`` gives; None: ``x`` are other images."""
        now = self._now  # one look: another thread may begin meanwhile
        if now is None or now[0] is not x:
            return None
        if not now[1]:
            now[1].update(self._read(x, then))
        return now[1][reader]

    def _read(self, x: Tensor, then: Then) -> dict[FromCommon, Output]:
        """For all streams at once, part by part: a part's maps are still in the processor's caches for each of them."""
        pooled = x.mean((2, 3))
        members = [reader.member(pooled) for reader in self.readers]
        maps: list[Tensor] = []  # of each member, (B * H * W, n): channels last
        start = 0
        for part in in_parts(self.filters, x, then):
            count, channels, height, width = part.shape
            flat, cells = part.permute(0, 2, 3, 1).reshape(-1, channels), height * width
            maps = maps or [x.new_empty(len(x) * cells, len(member.places)) for member in members]
            for whole, member in zip(maps, members, strict=True):
                some = whole[start * cells : (start + count) * cells]
                torch.index_select(flat, 1, member.places, out=some)
                some.view(count, cells, -1).mul_(member.gates[start : start + count])
            start += count
        found: dict[FromCommon, Output] = {}
        for reader, whole, member in zip(self.readers, maps, members, strict=True):
            made = whole.reshape(len(x), height, width, -1).permute(0, 3, 1, 2)
            found[reader] = (made if member.rows is None else holding(made, member.rows), member.wanted)
        return found


class FromCommon(nn.Module):
    """In the place of a stream's own layer: it takes what is computed for all, or computes it."""

    places: Tensor

    def __init__(self, own: Compact, common: Common, places: Tensor) -> None:
        super().__init__()
        self.own = own
        self.common = [common]  # not a part of this module: it is everybody's
        self.register_buffer("places", places)
        common.readers.append(self)

    def forward(self, x: Tensor, task: int, then: Then) -> Output:
        """As ``Compact``."""
        found = None if torch.compiler.is_compiling() else self.common[0].taken(self, x, then)
        return self.own.forward(x, task, then) if found is None else found

    def member(self, pooled: Tensor) -> Member:
        """What it takes of the maps of images of which ``pooled`` (B, C) are the means."""
        assert self.own.gate is not None
        opened, wanted = self.own.gate(pooled)
        rows = awake(opened) if self.own.one_reads else None
        if rows is None:
            return Member(opened.to(pooled.dtype)[:, None], self.places, None, wanted)
        return Member(opened.index_select(1, rows).to(pooled.dtype)[:, None], self.places[rows], rows, wanted)


class InParts(nn.Module):
    """In the place of a layer that reads the image, for some images only: the same, of a part of them at a time."""

    def __init__(self, own: Compact) -> None:
        super().__init__()
        self.own = own

    def forward(self, x: Tensor, task: int, then: Then) -> tuple[Tensor, Tensor | None]:
        """As ``Compact``."""
        if torch.compiler.is_compiling():
            return self.own.forward(x, task, then)
        return self.own.gating(x, lambda rows: torch.cat(list(in_parts(self.own, x, then, rows))))


def in_parts(layer: Compact, x: Tensor, then: Then, rows: Tensor | None = None) -> Iterator[Tensor]:
    """The maps of all filters of ``layer``, or of ``rows``, of as many images at a time as ``AT_ONCE`` allows: a power
    of two, for torch makes kernels for every new number of them."""
    filters = layer.width if rows is None else len(rows)
    most = AT_ONCE // (4 * filters * x.shape[2] * x.shape[3])
    for part in torch.split(x, 1 << max(0, most.bit_length() - 1)):
        yield layer.mapped(part, rows, then)


def make_common(streams: Sequence[CompactStream]) -> Common | None:
    """Let ``streams`` read the image together; None: what they compute of it differs, or is too little alike."""
    readers = [stream.full if stream.narrow is None else stream.narrow for stream in streams]
    name = next(iter(readers[0].backbone.layers))
    layers = [cast(Compact, reader.backbone.layers[name]) for reader in readers]
    if readers[0].backbone.sources[0] is not None or layers[0].weight.dim() != 4:
        return None
    union = torch.unique(torch.cat([layer.filters for layer in layers]))
    if filled(len(union)) > PAYS * sum(len(layer.weight) for layer in layers):
        return None
    weight = layers[0].weight.new_zeros(filled(len(union)), *layers[0].weight.shape[1:])
    bias = layers[0].bias.new_zeros(len(weight))
    places = [torch.searchsorted(union, layer.filters) for layer in layers]
    for layer, place in zip(layers, places, strict=True):
        weight[place], bias[place] = layer.weight[: len(place)], layer.bias[: len(place)]
    pairs = zip(layers, places, strict=True)
    if not all(torch.equal(layer.weight[: len(place)], weight[place]) for layer, place in pairs):
        return None  # a norm of the task's own was folded in
    common = Common(Compact(weight, bias, layers[0].stride, layers[0].padding))
    for reader, layer, place in zip(readers, layers, places, strict=True):
        spare = F.pad(place, (0, len(layer.weight) - len(place)))  # filled up with any: their gates never open
        reader.backbone = rebuilt(reader.backbone, {id(layer): FromCommon(layer, common, spare)})
    for stream in streams:
        if stream.narrow is not None:  # what lacks filters reads with the others; what has them all, by itself
            whole = cast(Compact, stream.full.backbone.layers[name])
            stream.full.backbone = rebuilt(stream.full.backbone, {id(whole): InParts(whole)})
    return common
