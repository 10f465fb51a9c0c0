"""Which channels of a network that somebody else wrote belong together, and which of them are always zero.

One pass is watched, operation by operation. Every tensor with channels carries their numbers and whether each is zero
whatever the image:

    convolution, linear     reads the channels of its input, gives new ones
    depthwise               the channels stay
    sum, product            channels of both sides become one
    concatenation           side by side
    activation, pool, norm  the channels stay
    a seal                  what it shuts is zero; so it stays until something is added to it

A channel can be cut where all that is read of it is zero. Whatever else meets a channel (a slice, an attention, a norm
over channels) keeps it: what is not known is not cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

SAME = {
    "clone", "detach", "alias", "_to_copy", "relu", "hardtanh", "clamp", "clamp_min", "leaky_relu", "elu", "gelu",
    "silu", "hardswish", "hardsigmoid", "sigmoid", "tanh", "neg", "abs", "mish", "pow", "sqrt", "div",
}  # fmt: skip
"""One tensor, element by element."""
TOGETHER = {"add": "and", "sub": "and", "mul": "or"}
"""Of two tensors; a channel of the result is zero where one side is, and, or, the other."""
POOLS = {
    "max_pool2d_with_indices", "max_pool2d", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d", "mean", "sum",
    "upsample_nearest2d", "upsample_bilinear2d",
}  # fmt: skip
"""Within channels, if not over their dimension."""
SHAPES = {"view", "_unsafe_view", "unsqueeze", "squeeze"}


@dataclass
class Channels:
    """Those of one tensor."""

    dim: int
    ids: Tensor
    """(C,), from 0 on."""
    zero: Tensor
    """(C,) bool: zero for every image."""


class Watched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within, all that happens to channels is noted. ``tensors``: the weights and statistics of the network."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tensors = {id(t): t for t in (*module.parameters(), *module.buffers())}
        self.of: dict[int, Channels] = {}
        """By tensor, what its channels are."""
        self.index: dict[int, tuple[Tensor | None, Tensor | None]] = {}
        """Of a weight, by its id: the channels of its rows and, unless it is one by channel, of its columns."""
        self.why: set[str] = set()
        """Operations by which channels are kept."""
        self._parent: list[int] = []
        self._kept: set[int] = set()
        self._turned: dict[int, Tensor] = {}  # a linear map's weight, transposed
        self._alive: list[Any] = []  # no tensor may go while its id is in use

    # -- what was found ----------------------------------------------------------------------------------------------

    def dead(self) -> set[int]:
        """Channels that can be cut."""
        kept = {self.root(i) for i in self._kept}
        return {i for i in range(len(self._parent)) if self.root(i) not in kept}

    def leave_one(self) -> None:
        """Keep one row of every weight: a layer of none would be no layer."""
        for rows, _ in self.index.values():
            if rows is not None and self.dead().issuperset(rows.tolist()):
                self._kept.add(int(rows[0]))

    def root(self, i: int) -> int:
        """The channel that stands for all that ``i`` is one with."""
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def read(self, x: Channels) -> Tensor:
        """Something reads these: those that are not zero are kept."""
        self._kept.update(x.ids[~x.zero].tolist())
        return x.ids

    def keep(self, x: Tensor, why: str) -> None:
        """Of what is done to ``x`` too little is known: all its channels stay, and all of a weight."""
        found = self.of.get(id(x))
        if found is not None:
            self._kept.update(found.ids.tolist())
            self.why.add(why)
        weight = self._turned.get(id(x), x)
        if id(weight) in self.tensors:
            self._kept.update(i for part in self.index.get(id(weight), ()) if part is not None for i in part.tolist())
            self.index[id(weight)] = (None, None)

    # -- one operation -----------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it, and note what it does to channels."""
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[1].rstrip("_")
        first = out[0] if isinstance(out, (tuple, list)) and out and isinstance(out[0], Tensor) else out
        if isinstance(first, Tensor):
            self._alive.append((out, args))
            found = self._after(name, func, args, kwargs or {}, first)
            if found is None:
                for x in _tensors((args, kwargs or {})):
                    self.keep(x, name)
            self.of.pop(id(first), None)  # it may have been changed in place
            if found is not None and len(found.ids):
                self.of[id(first)] = found
        return out

    def _after(self, name: str, func: Any, args: Any, kwargs: Any, out: Tensor) -> Channels | None:
        """The channels of ``out``; none at all if no input had any; None: not known."""
        if name in ("t", "transpose") and id(args[0]) in self.tensors and args[0].dim() == 2:
            self._turned[id(out)] = args[0]
            return NONE
        if name in ("convolution", "addmm", "mm", "linear"):
            return self._map(name, args, out)
        if name == "new_zeros" or not any(id(x) in self.of or id(x) in self.tensors for x in _tensors((args, kwargs))):
            return NONE
        if func._schema.name.endswith("_") and args[0]._is_view():
            self.keep(args[0]._base, name)  # what else sees it cannot be known
            return None
        x = self.of.get(id(args[0])) if args and isinstance(args[0], Tensor) else None
        if name == "cat":
            return self._cat(args)
        if name in TOGETHER:
            return self._together(name, args, kwargs, out)
        if name == "where":
            return self._where(args)
        if x is None or any(id(other) in self.of for other in _tensors((args[1:], kwargs))):
            return None
        if "batch_norm" in name:
            return self._norm(x, args)
        if any(id(other) in self.tensors or other.numel() > 1 for other in _tensors((args[1:], kwargs))):
            return None
        if name in SAME:
            stays = bool((func(args[0].new_zeros(1), *args[1:], **kwargs) == 0).all())
            return Channels(x.dim, x.ids, x.zero & stays)
        if name in POOLS:
            return _pool(name, x, args, out)
        if name == "constant_pad_nd":
            beside = 2 * (args[0].dim() - 1 - x.dim)  # pads are given from the last dimension on
            still = len(args[1]) <= beside and (len(args) < 3 or args[2] == 0)
            return x if still else None
        return _shape(x, args[0], out) if name in SHAPES else None

    def _map(self, name: str, args: Any, out: Tensor) -> Channels | None:
        source, given = (args[1], args[2]) if name == "addmm" else (args[0], args[1])
        bias = args[0] if name == "addmm" else args[2] if len(args) > 2 else None
        weight = self._turned.get(id(given), given)
        x, dim = self.of.get(id(source)), 1 if name == "convolution" else out.dim() - 1
        groups, transposed = (args[8], args[6]) if name == "convolution" else (1, False)
        if transposed or (x is not None and x.dim != dim):
            return None
        if groups > 1 and x is not None and groups == out.shape[1] == source.shape[1]:
            known = self._is(weight, x.ids, None) and (bias is None or self._is(bias, x.ids, None))
            return Channels(dim, x.ids, x.zero & (bias is None)) if known else None
        if groups > 1:
            return None
        ids = torch.arange(len(self._parent), len(self._parent) + out.shape[dim])
        self._parent += ids.tolist()
        if not self._is(weight, ids, None if x is None else self.read(x)):
            return None
        if bias is not None and not self._is(bias, ids, None):
            return None
        return Channels(dim, ids, torch.zeros(len(ids), dtype=torch.bool))

    def _norm(self, x: Channels, args: Any) -> Channels | None:
        parts = [part for part in args[1:5] if isinstance(part, Tensor)]
        if x.dim != 1 or not all(self._is(part, x.ids, None) for part in parts):
            return None
        return Channels(x.dim, x.ids, torch.zeros_like(x.zero))

    def _is(self, weight: Tensor, rows: Tensor, columns: Tensor | None) -> bool:
        """Note what its rows and columns are; False: it is none of the network's, or is used twice."""
        if id(weight) not in self.tensors or id(weight) in self.index:
            return False
        self.index[id(weight)] = (rows, columns)
        return True

    def _cat(self, args: Any) -> Channels | None:
        parts = [self.of.get(id(x)) for x in args[0]]
        known = [part for part in parts if part is not None]
        dim = (args[1] if len(args) > 1 else 0) % args[0][0].dim()
        if len(known) < len(parts) or any(part.dim != known[0].dim for part in known):
            return None
        if dim == known[0].dim:
            return Channels(dim, torch.cat([p.ids for p in known]), torch.cat([p.zero for p in known]))
        for part in known[1:]:
            self._unite(known[0].ids, part.ids)
        return Channels(known[0].dim, known[0].ids, torch.stack([p.zero for p in known]).all(0))

    def _together(self, name: str, args: Any, kwargs: Any, out: Tensor) -> Channels | None:
        sides = [(x, self.of.get(id(x))) for x in args[:2] if isinstance(x, Tensor)]
        known = [(x, found) for x, found in sides if found is not None]
        if not known:
            return None
        x, found = known[0]
        at = found.dim + out.dim() - x.dim()
        if len(known) == 2:
            other, second = known[1]
            if second.dim + out.dim() - other.dim() != at or len(second.ids) != len(found.ids):
                return None
            self._unite(found.ids, second.ids)
            zero = found.zero & second.zero if TOGETHER[name] == "and" else found.zero | second.zero
            return Channels(at, found.ids, zero)
        others = [y for y, found in sides if found is None]
        if any(id(y) in self.tensors or (y.dim() > out.dim() - 1 - at and y.shape[at - out.dim()] > 1) for y in others):
            return None
        return Channels(at, found.ids, found.zero & (name == "mul"))

    def _where(self, args: Any) -> Channels | None:
        """A selection by constants: what a seal shuts is zero."""
        chosen, x, other = args[:3]
        found = self.of.get(id(x))
        if found is None or id(chosen) in self.of or not isinstance(other, Tensor) or other.numel() > 1 or other != 0:
            return None
        if chosen.dim() != x.dim() or chosen.shape[found.dim] not in (1, x.shape[found.dim]):
            return None
        open_ = chosen.transpose(0, found.dim).flatten(1).any(1)
        return Channels(found.dim, found.ids, found.zero | ~open_)

    def _unite(self, a: Tensor, b: Tensor) -> None:
        for i, j in zip(a.tolist(), b.tolist(), strict=True):
            self._parent[self.root(i)] = self.root(j)


NONE = Channels(0, torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.bool))


def _tensors(found: Any) -> list[Tensor]:
    if isinstance(found, Tensor):
        return [found]
    parts = found.values() if isinstance(found, dict) else found if isinstance(found, (list, tuple)) else ()
    return [x for part in parts for x in _tensors(part)]


def _pool(name: str, x: Channels, args: Any, out: Tensor) -> Channels | None:
    """Over places; not over channels."""
    if name not in ("mean", "sum"):
        return x if x.dim == args[0].dim() - 3 else None
    if len(args) < 2 or not args[1]:
        return None
    gone = {d % args[0].dim() for d in args[1]}
    if x.dim in gone:
        return None
    before = 0 if len(args) > 2 and args[2] else sum(d < x.dim for d in gone)
    return Channels(x.dim - before, x.ids, x.zero)


def _shape(x: Channels, old: Tensor, new: Tensor) -> Channels | None:
    """Other dimensions around the channels, or channels and places as one dimension, channel by channel."""
    count, places = len(x.ids), prod(old.shape[x.dim + 1 :])
    for dim in range(1, new.dim()):
        behind = prod(new.shape[dim + 1 :])
        if new.shape[dim] == count and behind == places:
            return Channels(dim, x.ids, x.zero)
        if behind == 1 and new.shape[dim] == count * places:
            return Channels(dim, x.ids.repeat_interleave(places), x.zero.repeat_interleave(places))
    return None
