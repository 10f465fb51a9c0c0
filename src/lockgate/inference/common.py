"""What reads the image, computed once for all streams.

Of the layer that reads the image each filter that some stream keeps is computed once, and every stream takes those that
it keeps and applies its own gates. What gates and a read-out want to know of those maps is found once too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from lockgate.inference.asleep import awake, holding, some
from lockgate.inference.compact import Compact, rebuilt
from lockgate.inference.cut import CompactStream
from lockgate.inference.grid import Averages, averages, carrying, joined_averages
from lockgate.inference.reading import Reader
from lockgate.inference.union import pays, union
from lockgate.layers.plain import Then

AT_ONCE = 6 * 2**20
"""Bytes of maps of the size of the image that are made at a time: more fall out of the processor's caches."""
MOSTLY = 0.5
"""Where more than this share of the images want filters that a stream leaves out, all are run through all of it."""
FEWER = 256
"""Images that are then read at a time: a whole stream makes more maps of each."""
STEP = 16
"""As many filters as a multiple of this are computed for all."""


class Member(NamedTuple):
    """What one stream takes of the maps that are computed for all, for some images."""

    gates: Tensor  # (B, 1, n) of 0 and 1, of the filters it takes
    places: Tensor  # (n,), where they are among those of all
    rows: Tensor | None  # (n,), which of its own they are; None: all
    wanted: Tensor | None  # (B,), where a filter that it lacks was wanted


Output = tuple[Tensor, Tensor | None]
"""As of ``Compact``: the gated map, and where a filter that was left out was wanted."""


class Now(NamedTuple):
    """What is read."""

    images: Tensor
    members: dict[FromCommon, Member]  # one of each stream
    outputs: dict[FromCommon, Output]  # none before the first stream asks


class Common(nn.Module):
    """The filters that read the image, of all streams: for the images that ``passes`` gives, and no others."""

    def __init__(self, filters: Compact, grid: int | None) -> None:
        super().__init__()
        self.filters, self.grid = filters, grid
        self.readers: list[tuple[FromCommon, FromCommon | None]] = []
        """Of each stream: what it reads, and where some filters are left out, what all of it reads."""
        self._now: Now | None = None

    def passes(self, images: Tensor) -> Iterator[Tensor]:
        """``images`` (B, C, H, W) in parts; until the next is asked for, all streams read that part."""
        members = self._members(images)
        whole = any(reader in members for _, reader in self.readers if reader is not None)
        for part in torch.split(images, FEWER) if whole else (images,):
            self._now = Now(part, members if part is images else self._members(part), {})
            try:
                yield part
            finally:
                self._now = None

    def reads(self, reader: FromCommon, x: Tensor) -> bool:
        """Whether ``reader`` is one of those that read, and ``x`` the images."""
        now = self._now  # one look: another thread may begin meanwhile
        return now is not None and now.images is x and reader in now.members

    def taken(self, reader: FromCommon, x: Tensor, then: Then) -> Output | None:
        """What ``reader`` gives; None: it does not read, or other images."""
        now = self._now
        if now is None or now.images is not x or reader not in now.members:
            return None
        if not now.outputs:
            now.outputs.update(self._read(now, then))
        return now.outputs[reader]

    def _members(self, images: Tensor) -> dict[FromCommon, Member]:
        pooled, found = images.mean((2, 3)), dict[FromCommon, Member]()
        for reader, whole in self.readers:
            member = reader.member(pooled)
            lacks = whole is not None and member.wanted is not None and member.wanted.float().mean() > MOSTLY
            found |= {whole: whole.member(pooled)} if whole is not None and lacks else {reader: member}
        return found

    def _read(self, now: Now, then: Then) -> dict[FromCommon, Output]:
        """For all streams at once, part by part: a part's maps are still in the processor's caches for each of them."""
        x, members = now.images, list(now.members.values())
        rows = some(torch.cat([member.places for member in members]), self.filters.width, STEP)
        places = [member.places if rows is None else torch.searchsorted(rows, member.places) for member in members]
        maps: list[Tensor] = []  # of each member, (B * H * W, n): channels last
        found: list[Averages] = []
        start = 0
        for part in in_parts(self.filters, x, then, rows):
            found.append(averages(part, self.grid))
            count, channels, height, width = part.shape
            flat, cells = part.permute(0, 2, 3, 1).reshape(-1, channels), height * width
            maps = maps or [x.new_empty(len(x) * cells, len(place)) for place in places]
            for member, place, own in zip(members, places, maps, strict=True):
                here = own[start * cells : (start + count) * cells]
                torch.index_select(flat, 1, place, out=here)
                here.view(count, cells, -1).mul_(member.gates[start : start + count])
            start += count
        every = joined_averages(found)
        outputs: dict[FromCommon, Output] = {}
        for (reader, member), place, own in zip(now.members.items(), places, maps, strict=True):
            made = own.reshape(len(x), height, width, -1).permute(0, 3, 1, 2)
            carrying(made, every.gated(place, member.gates[:, 0]))
            outputs[reader] = (made if member.rows is None else holding(made, member.rows), member.wanted)
        return outputs


class FromCommon(nn.Module):
    """In the place of a stream's own layer: it takes what is computed for all, or computes it."""

    places: Tensor

    def __init__(self, own: Compact, alone: nn.Module, common: Common, places: Tensor) -> None:
        super().__init__()
        self.own, self.alone = own, alone
        self.common = [common]  # not a part of this module: it is everybody's
        self.register_buffer("places", places)

    def forward(self, x: Tensor, task: int, then: Then) -> Output:
        """As ``Compact``."""
        found = None if torch.compiler.is_compiling() else self.common[0].taken(self, x, then)
        return cast(Output, self.alone(x, task, then)) if found is None else found

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
    wholes = [stream.full for stream in streams if stream.narrow is not None]
    name = next(iter(readers[0].backbone.layers))

    def reading(reader: Reader) -> Compact:
        return cast(Compact, reader.backbone.layers[name])

    first = reading(readers[0])
    if readers[0].backbone.sources[0] is not None or first.weight.dim() != 4:
        return None
    if not pays([reading(reader) for reader in readers]):
        return None
    every = [*readers, *wholes]
    found = union([reading(reader) for reader in every])
    if found is None:
        return None
    read = readers[0].reading
    common = Common(found.layer, None if read is None else read.grid)
    places = {id(reader): place for reader, place in zip(every, found.places, strict=True)}

    def joined(reader: Reader, alone: Callable[[Compact], nn.Module]) -> FromCommon:
        layer = reading(reader)
        made = FromCommon(layer, alone(layer), common, places[id(reader)])
        reader.backbone = rebuilt(reader.backbone, {id(layer): made})
        return made

    for stream in streams:
        if stream.narrow is None:
            common.readers.append((joined(stream.full, lambda own: own), None))
        else:
            whole = joined(stream.full, InParts)  # what lacks filters reads with the others; all of it, by itself too
            common.readers.append((joined(stream.narrow, lambda own: own), whole))
            stream.runs_whole = functools.partial(common.reads, whole)
    return common
