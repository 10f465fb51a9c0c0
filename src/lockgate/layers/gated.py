"""Layers with one gate per task and the signature of the torch layer they replace (paper, Eq. 4 and Figure 1).

x ----> weight[open filters] ---> then ---> (x) ---> output
 \\---> gate of the task ------------------/
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.layers.gate import OPEN_BIAS, ChannelGate
from lockgate.layers.init import Init
from lockgate.layers.lock import Lockable
from lockgate.layers.per_task import TaskModules
from lockgate.layers.plain import Then


class TaskGated(nn.Module):
    """A layer with a gate per task."""

    gates: TaskModules

    @property
    def width(self) -> int:
        """How many filters there are."""
        raise NotImplementedError

    @property
    def locked(self) -> Tensor:
        """Which of them are locked, (c_out,) bool."""
        raise NotImplementedError

    def gate(self, task: int) -> ChannelGate:
        """The gate of ``task``."""
        return cast(ChannelGate, self.gates[task])

    def seal(self, relevant: Tensor, task: int) -> None:
        """AND the relevant set (c_out,) into the gate of ``task`` for ever."""
        seal = self.gate(task).seal  # of a new gate, it may not be where the layer is yet
        seal.logical_and_(relevant.to(seal.device))


class Gated(Lockable, TaskGated):
    """A lockable layer with a gate per task."""

    def __init__(self, weight: Tensor, bias: Tensor | None, init: Init, open_bias: float) -> None:
        super().__init__(weight, bias, init)
        self.gates = TaskModules()
        self.open_bias = open_bias
        self.reads: dict[int, Tensor] = {}
        """For each task's stream, the input channels it holds, as an index; a task that is not there holds all."""
        self.writes: dict[int, Tensor] = {}
        """For each task's stream, the output channels it computes. See ``Backbone.route``."""

    def _apply(self, fn: Any, recurse: bool = True) -> Gated:
        """Moving to another device: the channels that streams read and write move too."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.reads, self.writes = ({t: fn(index) for t, index in table.items()} for table in (self.reads, self.writes))
        return self

    def add_task(self) -> None:
        """A gate for one more task, as wide as the layer is now."""
        self.gates.append(ChannelGate(self.weight.shape[1], self.width, open_bias=self.open_bias))
        self.gates.freeze_past()

    def forward(self, x: Tensor, task: int, then: Then) -> tuple[Tensor, Tensor]:
        """Eq. 4: the gated output, and the gate (B, c_out)."""
        gate = self.gate(task)
        read, write = self.reads.get(task), self.writes.get(task)
        weight, bias = self._part(gate.width, x.shape[1], read, write)
        open_ = gate(x, read)  # (B, c_out)
        h = then(self.linear_map(x, weight, bias))
        return apply_gate(h, open_ if write is None else open_.index_select(1, write)), open_

    def _part(self, width: int, c_in: int, read: Tensor | None, write: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The filters that a stream computes, on the inputs it holds.

        A past stream runs at the width of its own time: same shapes, same kernels, same bits after growth.
        """
        weight: Tensor = self.weight
        bias: Tensor | None = self.bias
        if write is not None:
            weight = weight.index_select(0, write)
            bias = None if bias is None else bias.index_select(0, write)
        elif width != len(weight):
            weight = weight[:width]
            bias = None if bias is None else bias[:width]
        if read is not None:
            weight = weight.index_select(1, read)
        elif c_in != weight.shape[1]:
            weight = weight[:, :c_in]
        return weight, bias

    def spread(self, x: Tensor, task: int) -> Tensor:
        """Pooled outputs (B, n) of this layer at their full width (B, c_out), zero where nothing was computed."""
        write = self.writes.get(task)
        return x if write is None else x.new_zeros(len(x), self.gate(task).width).index_copy(1, write, x)

    def linear_map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The map being gated."""
        raise NotImplementedError

    def locked_by(self, task: int) -> dict[str, Tensor]:
        """The filters that ``task`` locked, at the input width of its own time: growth adds zeros behind that."""
        rows = super().locked_by(task)
        if task < len(self.gates):
            rows["weight"] = rows["weight"][:, : self.gate(task).squeeze.in_features]
        return rows


def apply_gate(h: Tensor, open_: Tensor) -> Tensor:
    """Channel-wise product of h (B, C[, H, W]) and its gate (B, C)."""
    shaped = open_.to(h.dtype).reshape(*open_.shape, *([1] * (h.dim() - 2)))
    if torch.is_grad_enabled():
        return h * shaped
    # Selecting instead of multiplying leaves +0.0 in shut channels, never -0.0, whatever an unlocked filter computes.
    return torch.where(shaped > 0, h, torch.zeros((), dtype=h.dtype, device=h.device))


class GatedConv2d(Gated):
    """``nn.Conv2d`` with a gate per task."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        *,
        bias: bool = True,
        init: Init = "he",
        open_bias: float = OPEN_BIAS,
    ) -> None:
        shape = (out_channels, in_channels, kernel_size, kernel_size)
        super().__init__(torch.empty(shape), torch.empty(out_channels) if bias else None, init, open_bias)
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def linear_map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Convolve (B, c_in, H, W)."""
        return F.conv2d(x, weight, bias, self.stride, self.padding)


class GatedLinear(Gated):
    """``nn.Linear`` with a gate per task."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, init: Init = "he", open_bias: float = OPEN_BIAS
    ) -> None:
        weight = torch.empty(out_features, in_features)
        super().__init__(weight, torch.empty(out_features) if bias else None, init, open_bias)

    def linear_map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Map (B, in_features)."""
        return F.linear(x, weight.contiguous(), bias)  # a slice would take another kernel: other bits
