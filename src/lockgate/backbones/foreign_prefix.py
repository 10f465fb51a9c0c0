"""The frozen beginning of a network, computed once an image.

Layers before the first part of a task's own give the same for ever. While a task is learnt, the modules there do not
compute: those that something behind needs give back what they gave before, the others blanks of the right shape.
Which ones are needed the gradient says: where nothing flows back to, nothing was read. Nothing is traced, and what was
found is tried out on an example: if one bit differs, nothing is cached.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lockgate.backbones.feature_cache import FeatureCache, image_digest
from lockgate.backbones.foreign_look import watched
from lockgate.layers.passes import Replayed, change_class
from lockgate.training import distributed

Run = Callable[[Tensor, dict[str, Tensor] | None], tuple[Tensor, dict[str, Tensor]]]
"""Images, and outputs to give back or None, to features (B, F) of the network as given and outputs of its modules."""


@dataclass(frozen=True)
class Prefix:
    """Modules that need not compute, and which of their outputs are needed."""

    shapes: Mapping[str, tuple[int, ...]]
    """Of each module's output, without the batch."""
    needed: tuple[str, ...]
    channels_last: tuple[str, ...] = ()
    """Of these, what lies in memory with channels last: kernels, and so bits, depend on it."""

    @property
    def length(self) -> int:
        """Numbers an image."""
        return sum(prod(self.shapes[name]) for name in self.needed)

    def row(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """What is needed of one image's outputs (1, ...), as one row."""
        return torch.cat([outputs[name][0].flatten() for name in self.needed]).float()

    def outputs(self, rows: Tensor) -> dict[str, Tensor]:
        """What each module gives back, from rows (B, length)."""
        parts = torch.split(rows, [prod(self.shapes[name]) for name in self.needed], dim=1)
        given = {n: part.reshape(-1, *self.shapes[n]) for n, part in zip(self.needed, parts, strict=True)}
        given |= {n: given[n].contiguous(memory_format=torch.channels_last) for n in self.channels_last}
        blanks = {n: rows.new_zeros(len(rows), *shape) for n, shape in self.shapes.items() if n not in given}
        return given | blanks


def find_prefix(module: nn.Module, own: list[str], example: Tensor, run: Run) -> Prefix | None:
    """The frozen beginning of ``module``; None: there is none, or it does not hold.

    ``own``: parts that are of a task, its head included. The modules found are changed: they can be replayed.
    """
    with torch.no_grad(), watched(module) as calls:
        features, _ = run(example, None)
    times = Counter(call.name for call in calls)
    ends = next((i for i, call in enumerate(calls) if call.name in own), len(calls))
    alone = [
        call
        for call in calls[:ends]
        if times[call.name] == 1
        and len(call.out) == len(example)
        and call.out.dtype == torch.float32
        and not any(name.startswith(f"{call.name}.") for name in own)
    ]
    names = {call.name for call in alone}
    units = [call for call in alone if not any(call.name.startswith(f"{other}.") for other in names)]
    if not units:
        return None
    for call in units:
        replayed: Any = change_class(call.module, Replayed)
        replayed.unit = call.name
    shapes = {call.name: tuple(call.out.shape[1:]) for call in units}
    outputs = {call.name: call.out.detach().clone() for call in units}
    needed = _needed(outputs, example, run)
    prefix = Prefix(shapes, needed, tuple(name for name in needed if _channels_last(outputs[name])))
    return prefix if prefix.needed and _holds(prefix, features, example, run) else None


def _channels_last(out: Tensor) -> bool:
    return out.dim() == 4 and not out.is_contiguous() and out.is_contiguous(memory_format=torch.channels_last)


def _needed(outputs: Mapping[str, Tensor], example: Tensor, run: Run) -> tuple[str, ...]:
    leaves = {name: value.requires_grad_(True) for name, value in outputs.items()}
    with torch.enable_grad():
        features, _ = run(example, {name: leaf * 1 for name, leaf in leaves.items()})  # * 1: may be changed in place
        found = torch.autograd.grad(features.sum(), list(leaves.values()), allow_unused=True)
    return tuple(name for name, gradient in zip(leaves, found, strict=True) if gradient is not None)


@torch.no_grad()
def _holds(prefix: Prefix, features: Tensor, example: Tensor, run: Run) -> bool:
    _, outputs = run(example, None)
    rows = torch.stack([prefix.row({n: value[i : i + 1] for n, value in outputs.items()}) for i in range(len(example))])
    return torch.equal(run(example, prefix.outputs(rows))[0], features)


class PrefixCache:
    """A prefix, and the file of what it made of images."""

    def __init__(self, prefix: Prefix, folder: Path, weights: Mapping[str, Tensor], run: Run) -> None:
        self.prefix, self.run = prefix, run
        key = hashlib.sha256(
            f"{torch.__version__} {sorted(prefix.shapes.items())} {prefix.needed} {prefix.channels_last}".encode()
        )
        for name in sorted(weights):
            key.update(name.encode() + image_digest(weights[name]))
        self.cache = FeatureCache(folder / key.hexdigest()[:32] / f"{distributed.rank()}.features", prefix.length)

    def outputs(self, x: Tensor) -> dict[str, Tensor]:
        """What the modules of the prefix give for images (B, C, H, W), each computed once: alone, so that its bits
        depend on no other."""
        rows = []
        for one in x.unbind():  # torch.split would give an empty part of no images
            image = one[None]
            digest = image_digest(image)
            row = self.cache.get(digest)
            if row is None:
                with torch.no_grad():
                    row = self.prefix.row(self.run(image, None)[1])
                self.cache.put(digest, row)
            rows.append(row.to(x.device))
        return self.prefix.outputs(torch.stack(rows) if rows else x.new_empty(0, self.prefix.length))
