"""Which layers of a network get parts of a task's own, and their change of class."""

from __future__ import annotations

from typing import Any

from torch import nn

from lockgate.backbones.foreign_look import Found
from lockgate.config import ModelConfig
from lockgate.layers.passes import change_class
from lockgate.layers.slots import SlotMap, SlotNorm, Tap

Slot = SlotMap | SlotNorm


def swap(module: nn.Module, found: Found, config: ModelConfig) -> list[Slot]:
    """Change the layers of ``module`` in place; those with parts of a task's own, in the order of their calls."""
    names = list(found.maps)
    frozen = round((1 - config.private_depth) * len(names))
    own = names[frozen:]
    slots: dict[str, Slot] = {}
    for name in own if config.private or config.gates else ():
        slots[name] = _map(found, name, config)
    if own:
        first = found.order[own[0]] if frozen else -1
        slots |= {name: _norm(found, name, slots) for name in found.norms if found.order[name] > first}
    if found.head:
        head: Any = change_class(module.get_submodule(found.head), Tap)
        head.set_up(found.head_shape)
    return [slots[name] for name in sorted(slots, key=found.order.__getitem__)]


def _map(found: Found, name: str, config: ModelConfig) -> SlotMap:
    slot: SlotMap = change_class(found.maps[name], SlotMap)
    gated = config.gates and name not in found.flat and name not in found.depthwise
    slot.set_up(name, config.private, gated)
    slot.follows = found.depthwise.get(name, "") if config.gates else ""
    slot.applies = name not in found.pairs.values()
    return slot


def _norm(found: Found, name: str, slots: dict[str, Slot]) -> SlotNorm:
    slot: SlotNorm = change_class(found.norms[name], SlotNorm)
    slot.set_up(name)
    source = slots.get(found.pairs.get(name, ""))
    if isinstance(source, SlotMap):
        slot.source = source.follows or source.name
        slot.channel_dim = source.channel_dim
    return slot
