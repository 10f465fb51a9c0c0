"""What in a network that somebody else wrote could change past answers, or be lost from a checkpoint: found by name.

statistics outside of norms      buffers that a pass changes in evaluation, or norms by the batch
weights outside of modules       tensors, or modules in plain lists, that no state holds
answers that change by themselves    randomness in evaluation, memory of earlier images, images that see each other
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lockgate.backbones.foreign_look import Call, tensor_of, watched

CLOSE = 1e-3
"""Two answers to one image among others: rounding depends on the batch, up to this share of the largest value."""


def refusals(module: nn.Module, example: Tensor, name: str) -> list[str]:
    """Every reason why the promise could not be kept. Runs ``module``, in evaluation, on (2, C, H, W)."""
    return [*_hidden(module), *_by_batch(module)] or _behaviour(module, example, name)


def _hidden(module: nn.Module) -> Iterator[str]:
    """Tensors and modules that are no part of the network's state."""
    registered = {tensor.data_ptr() for tensor in (*module.parameters(), *module.buffers())}
    known = set(map(id, module.modules()))
    for name, part in module.named_modules():
        for attribute, value in vars(part).items():
            if attribute.startswith("_"):
                continue
            where = f"{name}.{attribute}".lstrip(".")
            for held in _within(value):
                if isinstance(held, nn.Module) and id(held) not in known and any(True for _ in held.parameters()):
                    yield f"{where!r} holds layers in a plain list or dict: no state has them. Use nn.ModuleList."
                    break
                if isinstance(held, Tensor) and held.is_floating_point() and held.data_ptr() not in registered:
                    yield f"{where!r} is a tensor outside of the state. Make it an nn.Parameter or a buffer."
                    break


def _within(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, (list, tuple)) else [value]


def _by_batch(module: nn.Module) -> Iterator[str]:
    for name, part in module.named_modules():
        if isinstance(part, _BatchNorm) and part.running_mean is None:
            yield (
                f"{name!r} normalises by the other images of a batch, in evaluation too. "
                "Give it track_running_stats=True."
            )


@torch.no_grad()
def _behaviour(module: nn.Module, example: Tensor, name: str) -> list[str]:
    """What three passes show: the same images twice, with others between them, and beside others."""
    other = example.flip(0, -1) * 0.5 + 1
    state = {key: value.clone() for key, value in _state(module)}
    first = _run(module, example, name)
    _run(module, other, name)
    again = _run(module, example, name)
    moved = [key for key, value in _state(module) if not torch.equal(value, state[key])]
    if moved:
        return [f"{key!r} is changed by a pass in evaluation: statistics belong into a norm." for key in moved]
    differs = _first_difference(first, again, exact=True)
    if differs:
        return [
            f"{differs} answers differently to the same images: it is random in evaluation (F.dropout without "
            "`training=self.training`?), or remembers earlier ones."
        ]
    mixed = _run(module, torch.cat([example[:1], other[1:]]), name)
    if _close(first[-1].out, mixed[-1].out):
        return []
    differs = _first_difference(first, mixed, exact=False)
    return [f"{differs} lets images of a batch see each other: an answer would depend on them."]


def _state(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()  # those too that no checkpoint has


def _run(module: nn.Module, x: Tensor, name: str) -> list[Call]:
    with watched(module) as calls:
        out = tensor_of(module(x), name)
    return [*calls, Call("", module, x, out)]


def _first_difference(one: list[Call], other: list[Call], exact: bool) -> str:
    """The name of the first module whose answer to the first image differs (``exact``: to all, to the bit)."""
    for a, b in zip(one, other, strict=False):
        same = _same_bits(a.out, b.out) if exact else _close(a.out, b.out)
        if not same:
            return repr(a.name) if a.name else "what stands between its layers"
    return "" if len(one) == len(other) else "which layers it calls"


def _same_bits(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))


def _close(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or not len(a):
        return a.shape == b.shape
    largest = float(a[0].nan_to_num().abs().max()) if a[0].numel() else 0.0
    return bool(torch.allclose(a[0], b[0], rtol=0, atol=CLOSE * max(largest, 1e-6), equal_nan=True))
