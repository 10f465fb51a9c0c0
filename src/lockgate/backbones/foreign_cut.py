"""A stream of a network that somebody else wrote, without the channels that its seals shut.

The stream is copied with one task in it, watched through one pass (``foreign_channels.py``), and copied again with
smaller weights. The network's own ``forward`` runs what is left. What the pass does not explain is not cut.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from lockgate.backbones.foreign import ForeignBackbone, features_of
from lockgate.backbones.foreign_channels import Watched
from lockgate.layers.gate import ChannelGate
from lockgate.layers.passes import running
from lockgate.layers.per_task import TaskModules
from lockgate.layers.slots import PrivateRows, SlotMap

AGREES = 1e-4
"""Of the largest feature: a cut stream that differs by more on the example was cut wrongly, and is not used."""


@dataclass(frozen=True)
class Cuttable:
    """What could be cut of a network's streams if all gates were shut."""

    gated: int
    """Channels that have a gate."""
    channels: int
    """Of these, the ones that leave when they are shut."""
    why: tuple[str, ...]
    """Operations that keep channels."""


class Shut(nn.Module):
    """In the place of a gate: open wherever its seal lets it be."""

    seal: Tensor

    def __init__(self, seal: Tensor) -> None:
        super().__init__()
        self.register_buffer("seal", seal)

    def forward(self, x: Tensor) -> Tensor:
        """(B, c_out), the same for all images."""
        return self.seal.float().expand(x.shape[0], -1)


class OneStream(nn.Module):
    """A network with the stream of one task in it."""

    places: Tensor

    def __init__(self, module: nn.Module, name: str, places: Tensor, width: int) -> None:
        super().__init__()
        self.module, self.name, self.width = module, name, width
        self.register_buffer("places", places)
        """Which of the ``width`` features are left."""

    def forward(self, x: Tensor) -> Tensor:
        """Standardised images (B, C, H, W) to the features that are left."""
        with running(0) as at:
            return features_of(self.module, x, at, self.name)


def cuttable(backbone: ForeignBackbone) -> Cuttable:
    """What could be cut, with all gates of the newest task shut."""
    gated = [slot for slot in _gated(backbone) if len(slot.gates)]
    module = _single(backbone, -1, dict.fromkeys((slot.name for slot in gated), False))
    seen, _ = _watch(backbone, module)
    dead, rows = seen.dead(), [_rows(seen, module, slot.name) for slot in gated]
    shut = sum(int(i) in dead for part in rows if part is not None for i in part)
    return Cuttable(sum(slot.width for slot in gated), shut, tuple(sorted(seen.why)))


@torch.no_grad()
def cut_stream(backbone: ForeignBackbone, task: int) -> OneStream | None:
    """The stream of ``task`` without what is always shut; None where nothing can be cut, or it would not agree."""
    seals = [slot.gate(task).seal for slot in _gated(backbone)]
    if all(bool(seal.all()) for seal in seals):
        return None
    whole = _single(backbone, task, {})
    seen, features = _watch(backbone, whole)
    seen.leave_one()
    dead = seen.dead()
    if not any(i in dead for parts in seen.index.values() for ids in parts if ids is not None for i in ids.tolist()):
        return None
    memo: dict[int, Any] = {}
    for key, (rows, columns) in seen.index.items():
        if rows is not None:
            memo[key] = _part(seen.tensors[key], _alive(rows, dead), None if columns is None else _alive(columns, dead))
    small = copy.deepcopy(whole, memo)
    for slot in _gated(backbone):
        weight = whole.get_submodule(slot.name)._parameters["weight"]
        rows, columns = seen.index.get(id(weight), (None, None))
        kept = [None if ids is None else _alive(ids, dead) for ids in (rows, columns)]
        cast(SlotMap, small.get_submodule(slot.name)).gates = TaskModules([_cut_gate(slot.gate(task), *kept)])
    for part in small.modules():
        _tell_sizes(part)
    places = _alive(seen.of[id(features)].ids, dead) if id(features) in seen.of else torch.arange(features.shape[1])
    stream = OneStream(small.eval(), backbone.name, places.to(features.device), features.shape[1])
    return stream if _agrees(backbone, task, stream) else None


def _agrees(backbone: ForeignBackbone, task: int, stream: OneStream) -> bool:
    x = backbone.example
    wanted = backbone(x, task).features
    try:
        found = wanted.new_zeros(wanted.shape).index_copy(1, stream.places, stream(x))
    except (RuntimeError, ValueError, IndexError):  # it counts on a number of channels
        return False
    return bool((found - wanted).abs().max() <= AGREES * wanted.abs().max())


def _gated(backbone: ForeignBackbone) -> list[SlotMap]:
    return [slot for slot in backbone.slots if isinstance(slot, SlotMap) and slot.gated]


def _watch(backbone: ForeignBackbone, module: nn.Module) -> tuple[Watched, Tensor]:
    """One pass; the features are read by a head."""
    seen, x = Watched(module), backbone.example
    with torch.no_grad(), running(0) as at, seen:
        features = features_of(module, x, at, backbone.name)
    if id(features) in seen.of:
        seen.read(seen.of[id(features)])
    return seen, features


def _single(backbone: ForeignBackbone, task: int, open_: dict[str, bool]) -> nn.Module:
    """The network with one stream, its rows in their places, and seals for gates; ``open_``: others for these."""
    memo: dict[int, Any] = {}
    for slot in backbone.slots:
        own: nn.Module = slot.own[task]
        if isinstance(slot, SlotMap):
            own = _whole_rows(slot, cast(PrivateRows, own))
            for kind in ("weight", "bias"):
                if slot._parameters.get(kind) is not None:
                    memo[id(slot._parameters[kind])] = getattr(own, kind)
            if slot.gated:
                seal = slot.gate(task).seal
                shut = Shut(torch.full_like(seal, open_[slot.name]) if slot.name in open_ else seal.clone())
                memo[id(slot.gates)] = TaskModules([shut])
            memo[id(slot.own)] = TaskModules([own])
        else:
            memo[id(slot.own)] = TaskModules([copy.deepcopy(own)])
    return copy.deepcopy(backbone.module, memo).eval()


def _whole_rows(slot: SlotMap, own: PrivateRows) -> PrivateRows:
    """All filters of a stream."""
    whole = copy.deepcopy(own).requires_grad_(False)
    for kind in ("weight", "bias"):
        given = slot._parameters.get(kind)
        if given is not None:
            rows = own.within(given.detach(), getattr(own, kind).detach())
            setattr(whole, kind, nn.Parameter(rows.clone(), requires_grad=False))
    whole.index = torch.arange(slot.width, device=own.index.device)
    return whole


def _rows(seen: Watched, module: nn.Module, name: str) -> Tensor | None:
    weight = module.get_submodule(name)._parameters["weight"]
    return seen.index.get(id(weight), (None, None))[0]


def _alive(ids: Tensor, dead: set[int]) -> Tensor:
    return torch.tensor([place for place, i in enumerate(ids.tolist()) if i not in dead], dtype=torch.long)


def _part(tensor: Tensor, rows: Tensor | None, columns: Tensor | None) -> Tensor:
    found = tensor.detach()
    if rows is not None:
        found = found.index_select(0, rows.to(found.device))
    if columns is not None:
        found = found.index_select(1, columns.to(found.device))
    found = found.clone()
    return nn.Parameter(found, requires_grad=False) if isinstance(tensor, nn.Parameter) else found


def _cut_gate(gate: ChannelGate, rows: Tensor | None, columns: Tensor | None) -> ChannelGate:
    memo: dict[int, Any] = {id(gate.squeeze.weight): _part(gate.squeeze.weight, None, columns)}
    for tensor in (gate.excite.weight, gate.excite.bias, gate.seal, gate.pruned, gate.fires):
        memo[id(tensor)] = _part(tensor, rows, None)
    return copy.deepcopy(gate, memo).requires_grad_(False)


def _tell_sizes(part: nn.Module) -> None:
    """Attributes by the weights that are left."""
    weight: Any = part._parameters.get("weight")
    if isinstance(part, _ConvNd) and weight is not None:
        if part.groups == part.in_channels == part.out_channels:
            part.groups = len(weight) if part.groups > 1 else 1
        part.out_channels, part.in_channels = len(weight), weight.shape[1] * part.groups
    elif isinstance(part, nn.Linear) and weight is not None:
        part.out_features, part.in_features = weight.shape
    elif isinstance(part, _NormBase) and weight is not None:
        part.num_features = len(weight)
