"""Layers of a network that somebody else wrote, with parts of their own for each task.

    map (convolution, linear)   private rows: copies of some filters, which stand in for them in the task's stream only
    norm                        a copy per task, statistics included
    head                        gives its input as features; each task has a head elsewhere

A module keeps its object, its attributes and its names in the state; only its class becomes a sub-class of the one it
had. So whatever reads ``conv.stride``, asks ``isinstance`` or hands ``conv.weight`` to a function still works, and
nothing has to be traced. What was given never changes: two streams share constants, nothing else.
"""

from __future__ import annotations

import copy
import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lockgate.layers.gate import ChannelGate
from lockgate.layers.gated import TaskGated
from lockgate.layers.passes import current, stream
from lockgate.layers.per_task import TaskModules
from lockgate.training.phase import evaluating

OPEN_LATE = 4.0
"""Start of the gates' last bias: a pretrained network is learnt to be used as it is, and pruned later."""
FOLLOWS = 0.1
"""How far statistics of a task's norms go towards each batch's: torch's own rate. What a network says fits trainings of
a million steps (0.01) or another library's convention (0.99); a task has a hundred."""
LEAK = 1e-6
"""What a shut channel passes on while its gate learns: behind it a ReLU at 0 would leave the gate without gradient."""


class PrivateRows(nn.Module):
    """Filters of one task, and for which of the given ones they stand in."""

    index: Tensor

    def __init__(self, weight: Tensor, bias: Tensor | None, count: int) -> None:
        super().__init__()
        index = torch.randperm(len(weight))[:count].sort().values
        self.register_buffer("index", index)
        where = index.to(weight.device)
        self.weight = nn.Parameter(weight.detach()[where].clone())
        self.bias = None if bias is None else nn.Parameter(bias.detach()[where].clone())

    def within(self, given: Tensor, own: Tensor) -> Tensor:
        """``given`` rows with the task's ``own`` in their place."""
        return own if len(own) == len(given) else given.index_copy(0, self.index, own.to(given.dtype))


class SlotMap(TaskGated):
    """A convolution or linear map with private rows, and a gate if ``gated``, for each task."""

    name: str
    share: float
    gated: bool
    follows: str
    """Of a depthwise convolution: the map whose gate is applied to its output again."""
    applies: bool
    """Whether the gate acts on this output, or on that of the norm behind."""
    own: TaskModules

    def set_up(self, name: str, share: float, gated: bool) -> None:
        """Called once its class is changed; the module has been built before, by others."""
        self.name, self.share, self.gated, self.follows, self.applies = name, share, gated, "", True
        self.own = TaskModules()
        if gated:
            self.gates = TaskModules()

    def add_task(self) -> None:
        """Private rows, as copies of the filters that they stand in for, and a gate."""
        weight, bias = cast(Tensor, self._parameters["weight"]), self._parameters.get("bias")
        self.own.append(PrivateRows(weight, bias, math.ceil(self.share * len(weight))))
        self.own.freeze_past()
        if self.gated:
            c_in = weight.shape[1] * getattr(self, "groups", 1)
            self.gates.append(ChannelGate(c_in, len(weight), open_bias=OPEN_LATE))
            self.gates.freeze_past()

    @property
    def weight(self) -> Any:
        """The filters of the stream under way; outside of one, those that were given."""
        return self._filters("weight")

    @property
    def bias(self) -> Any:
        """As ``weight``."""
        return self._filters("bias")

    def _filters(self, kind: str) -> Any:
        given, at = self._parameters.get(kind), stream()
        if given is None or at is None:
            return given
        rows = cast(PrivateRows, self.own[cast(int, at.task)])
        return rows.within(given, getattr(rows, kind))

    @property
    def width(self) -> int:
        """How many filters there are."""
        return len(cast(Tensor, self._parameters["weight"]))

    @property
    def locked(self) -> Tensor:
        """All of them, always: what was given never changes."""
        return torch.ones(self.width, dtype=torch.bool, device=cast(Tensor, self._parameters["weight"]).device)

    @property
    def channel_dim(self) -> int:
        """Where the channels of its output are."""
        return -1 if isinstance(self, nn.Linear) else 1

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """As the class it had, with the filters of the stream, and gated."""
        out: Tensor = super().forward(x, *args, **kwargs)
        at = stream()
        if at is None:
            return out
        if self.gated:
            at.gates[self.name] = self.gate(cast(int, at.task))(_pooled(x, self.channel_dim))
        source = self.follows or self.name
        return opened(out, at.gates[source], self.channel_dim) if self.applies and source in at.gates else out

    def train(self, mode: bool = True) -> SlotMap:
        """Only what belongs to the newest task ever trains."""
        self.training = False
        for child in self.children():
            child.train(mode)
        return self


class SlotNorm(nn.Module):
    """A norm with a copy for each task, which starts as it was given."""

    own: TaskModules
    name: str
    source: str
    """The map whose gate is applied behind this norm."""
    channel_dim: int

    def set_up(self, name: str) -> None:
        """Called once its class is changed."""
        self.name, self.own, self.source, self.channel_dim = name, TaskModules(), "", 1

    def add_task(self) -> None:
        """One more copy."""
        own = self._modules.pop("own")  # past copies are not copied
        try:
            fresh = copy.deepcopy(self)
        finally:
            self._modules["own"] = own
        fresh.__class__ = type(self).__mro__[2]  # the class it had
        if isinstance(fresh, _BatchNorm):
            fresh.momentum = FOLLOWS
        self.own.append(fresh.requires_grad_(True))
        self.own.freeze_past()

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """As the class it had, with the copy of the stream, and gated."""
        at = stream()
        if at is None:
            given: Tensor = super().forward(x, *args, **kwargs)
            return given
        norm = self.own[cast(int, at.task)]
        alone = isinstance(norm, _BatchNorm) and norm.training and x.numel() == x.shape[1]  # one value a channel
        with evaluating(*([norm] if alone else [])):
            out: Tensor = norm(x, *args, **kwargs)
        return opened(out, at.gates[self.source], self.channel_dim) if self.source in at.gates else out

    def train(self, mode: bool = True) -> SlotNorm:
        """Only the newest task's copy ever trains."""
        self.training = False
        for child in self.children():
            child.train(mode and child is self.own)
        return self


class Tap(nn.Module):
    """A head that was given: what reaches it are the features. Its weights are gone; its answer is blank."""

    outputs: tuple[int, ...]

    def set_up(self, outputs: tuple[int, ...]) -> None:
        """Called once its class is changed. ``outputs``: the shape of its answer, without the batch."""
        self.outputs = outputs
        for kind in self._parameters:
            self._parameters[kind] = None

    def forward(self, x: Tensor) -> Tensor:
        """Note the features; zeros of the right shape for whatever stands behind."""
        at = current()
        if at is not None:
            at.features = x
        return x.new_zeros(x.shape[0], *self.outputs)  # not len: an export would make the batch a constant


def opened(h: Tensor, gate: Tensor, dim: int) -> Tensor:
    """``h`` where its channels, in dimension ``dim``, are open by ``gate`` (B, C).

    Selected, not multiplied: inf and NaN of a shut channel would leak through a product with zero.
    """
    shape = [1] * h.dim()
    shape[0], shape[dim] = gate.shape
    shaped = gate.to(h.dtype).reshape(shape)
    if torch.is_grad_enabled():
        return h * (LEAK + (1 - LEAK) * shaped)
    return torch.where(shaped > 0, h, torch.zeros((), dtype=h.dtype, device=h.device))


def _pooled(x: Tensor, dim: int) -> Tensor:
    """``x`` averaged over all but images and channels, (B, C)."""
    kept = dim % x.dim()
    return x if x.dim() == 2 else x.mean([d for d in range(1, x.dim()) if d != kept])
