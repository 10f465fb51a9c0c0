"""One pass of a network that somebody else wrote, watched: which layers it calls, when, and which is its head.

Nothing is traced: what is found here decides what a task gets of its own, not whether past answers stay.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from lockgate.errors import ConfigError

MAPS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (_NormBase, nn.GroupNorm, nn.LayerNorm)
LEAST_BLOCKS = 2
"""With fewer blocks than this, layers are read one by one."""


@dataclass
class Call:
    """A module was called."""

    name: str
    module: nn.Module
    x: Tensor
    out: Tensor


@dataclass
class Found:
    """What a pass showed."""

    maps: dict[str, nn.Module]
    """Convolutions and linear maps in the order of their first calls, without the head."""
    norms: dict[str, nn.Module]
    """Norms with parameters or statistics, likewise."""
    head: str
    """The linear map whose output is the network's; empty: what it gives are features."""
    head_shape: tuple[int, ...]
    """Of the head's output, without the batch."""
    blocks: list[str]
    """Modules whose outputs stand for the network's layers, in the order of their calls."""
    order: dict[str, int] = field(default_factory=dict)
    """When each module was called first."""
    pairs: dict[str, str] = field(default_factory=dict)
    """By norm, the map whose output is its input."""
    depthwise: dict[str, str] = field(default_factory=dict)
    """By depthwise convolution, the map whose channels it filters; empty: not known."""
    flat: set[str] = field(default_factory=set)
    """Maps whose output has a single place, such as those of squeeze-and-excitation."""

    def blocks_from(self, own: Iterable[str]) -> list[str]:
        """Blocks that differ from stream to stream, where the modules ``own`` are a task's own."""
        first = self._first(own)
        return [name for name in self.blocks if self.order[name] >= first]

    def parts_before(self, own: Iterable[str]) -> list[nn.Module]:
        """Maps and norms before the first of the modules ``own``, which give the same for ever."""
        first = self._first(own)
        return [part for name, part in {**self.maps, **self.norms}.items() if self.order[name] < first]

    def _first(self, own: Iterable[str]) -> int:
        return min((self.order[name] for name in own), default=len(self.order))


def tensor_of(out: Any, name: str = "") -> Tensor:
    """The tensor in what a network returns: itself, ``.logits``, pooled or last features, or the first of several."""
    for kind in ("logits", "pooler_output", "last_hidden_state"):
        if isinstance(getattr(out, kind, None), Tensor):
            found: Tensor = getattr(out, kind)
            return found
    if isinstance(out, Mapping):
        out = list(out.values())
    if isinstance(out, (tuple, list)) and out:
        out = out[0]
    if not isinstance(out, Tensor) or not out.is_floating_point():
        got = f"{out.dtype} {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
        raise ConfigError(
            [
                f"network {name!r} must return a float tensor, something with `.logits`, or a tuple that begins with a "
                f"tensor. Got {got} instead; wrap it in a module that returns one."
            ]
        )
    return out


@contextmanager
def watched(module: nn.Module, names: Collection[str] | None = None) -> Iterator[list[Call]]:
    """Within, calls of modules (None: all) that take and give a tensor are noted, in the order in which they end."""
    calls: list[Call] = []

    def note(name: str) -> Any:
        def hook(called: nn.Module, args: tuple[Any, ...], out: Any) -> None:
            if args and isinstance(args[0], Tensor) and isinstance(out, Tensor):
                calls.append(Call(name, called, args[0], out))

        return hook

    parts = module.named_modules() if names is None else [(name, module.get_submodule(name)) for name in names]
    handles = [part.register_forward_hook(note(name)) for name, part in parts if name]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def look(module: nn.Module, example: Tensor, head: str | None, name: str) -> Found:
    """Run ``module`` on an ``example`` (B, C, H, W) and see. ``head``: its name; empty: none; None: find it."""
    with torch.no_grad(), watched(module) as calls:
        out = tensor_of(module(example), name)
    maps = [call for call in calls if is_map(call.module)]
    chosen = _head(maps, out, head, name, module)
    order: dict[str, int] = {}
    for call in calls:
        order.setdefault(call.name, len(order))
    found = Found(
        maps={call.name: call.module for call in maps if call.name != chosen},
        norms={call.name: call.module for call in calls if is_norm(call.module)},
        head=chosen,
        head_shape=next((tuple(call.out.shape[1:]) for call in reversed(maps) if call.name == chosen), ()),
        blocks=[],
        order=order,
        flat={call.name for call in maps if call.out.dim() < 3 or call.out[0].numel() == _width(call)},
    )
    found.blocks = _blocks(module, calls, found)
    _pair(calls, found)
    return found


def is_map(module: nn.Module) -> bool:
    """Whether its filters are rows of a parameter that is its own: not made of others by a parametrisation."""
    return isinstance(module, MAPS) and isinstance(module._parameters.get("weight"), nn.Parameter)


def is_norm(module: nn.Module) -> bool:
    """Torch's norms, and what calls itself a norm and has parameters, unless it contains other layers."""
    if isinstance(module, NORMS):
        return any(True for _ in module.parameters()) or any(True for _ in module.buffers())
    named = "norm" in type(module).__name__.lower() and any(True for _ in module.parameters(recurse=False))
    return named and not any(is_map(part) or isinstance(part, NORMS) for part in module.children())


def _head(maps: list[Call], out: Tensor, head: str | None, name: str, module: nn.Module) -> str:
    if head:
        if not any(call.name == head for call in maps):
            known = ", ".join(call.name for call in maps[-4:])
            raise ConfigError([f"network {name!r} has no linear map {head!r} that is called. The last are: {known}."])
        return head
    if head is not None or len({call.name for call in maps}) < 2:  # a head alone would leave nothing
        return ""
    last = maps[-1]
    flat = last.out[0].numel() == last.out.shape[1]
    same = last.out.numel() == out.numel() and len(last.out) == len(out)
    return last.name if flat and same else ""


def _width(call: Call) -> int:
    return int(call.out.shape[-1 if isinstance(call.module, nn.Linear) else 1])


def _blocks(module: nn.Module, calls: list[Call], found: Found) -> list[str]:
    """Elements of lists and sequences that hold two maps or more, innermost; or else the maps themselves."""
    parts = dict(module.named_modules())
    called = {call.name for call in calls}
    inside = {name: sum(other.startswith(f"{name}.") for other in found.maps) for name in called}
    lists = (nn.ModuleList, nn.Sequential)
    several = {
        name
        for name in called
        if inside[name] >= 2 and isinstance(parts.get(name.rpartition(".")[0], module), lists) and name in parts
    }
    inner = [n for n in several if not any(other.startswith(f"{n}.") for other in several)]
    if len(inner) < LEAST_BLOCKS:
        return list(found.maps)
    return sorted(inner, key=found.order.__getitem__)


def _pair(calls: list[Call], found: Found) -> None:
    """Which norm reads which map, and whose channels each depthwise convolution filters: the same tensor, or what
    layers without a mixing of channels made of it."""
    writer: dict[int, str] = {}
    origin: dict[int, str] = {}
    for call in calls:
        if call.name in found.maps:
            source = origin.get(id(call.x), "")
            if _is_depthwise(call.module):
                found.depthwise[call.name] = source
            writer[id(call.out)] = call.name
            origin[id(call.out)] = source if _is_depthwise(call.module) and source else call.name
        elif not any(True for _ in call.module.children()) and call.out.shape[:2] == call.x.shape[:2]:
            if call.name in found.norms and id(call.x) in writer:
                found.pairs[call.name] = writer[id(call.x)]
            if id(call.x) in origin:
                origin[id(call.out)] = origin[id(call.x)]


def _is_depthwise(module: Any) -> bool:
    return getattr(module, "groups", 1) == getattr(module, "out_channels", 0) == getattr(module, "in_channels", 0) > 1


def unshare(module: nn.Module) -> None:
    """Give every place of the network its own modules and tensors where several share one.

    What is shared is constant here, so that a copy computes the same; in a checkpoint each name has its own tensor.
    """
    _unshare_modules(module, {id(module)})
    seen: set[int] = set()
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None and id(parameter) in seen:
                part._parameters[name] = nn.Parameter(parameter.detach().clone(), parameter.requires_grad)
            seen.add(id(parameter))
        for name, buffer in part._buffers.items():
            if buffer is not None and id(buffer) in seen:
                part._buffers[name] = buffer.clone()
            seen.add(id(buffer))


def _unshare_modules(module: nn.Module, seen: set[int]) -> None:
    for name, child in module._modules.items():
        if child is None:
            continue
        holds = any(True for _ in child.parameters()) or any(True for _ in child.buffers())
        if id(child) in seen and holds:
            child = module._modules[name] = copy.deepcopy(child)
        seen.add(id(child))
        _unshare_modules(child, seen)
