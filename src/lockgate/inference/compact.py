"""One stream as small dense layers: only the channels it can open, BatchNorm folded, gates cut to fit.

A compact layer is called as the layer it replaces, so the backbone's own ``forward`` runs it (``rebuilt``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.backbones.base import Backbone
from lockgate.inference.asleep import awake, columns, held, holding
from lockgate.inference.grid import mean
from lockgate.inference.neighbours import convolved_and_pooled, pays
from lockgate.layers.gate import ChannelGate
from lockgate.layers.gated import Gated
from lockgate.layers.norm import TaskNorm
from lockgate.layers.plain import Then
from lockgate.layers.pool import pool_relu

LANES = 8
"""Channels are filled up with zeros to a multiple of this: as many floats as a vector register of AVX2 holds."""
FEW_INPUTS = 4
"""A convolution of no more channels than this spends its time on writing: where it is pooled it is made in pieces ...
"""
PIECE = 64
"""... of at most so many filters: of more at once, each takes twice as long."""
REGISTER = 16
"""Floats in the widest register there is."""
SHUT = -1.0
"""Log-odds of a gate that never opens."""


class Cut(NamedTuple):
    """The channels of one layer that a stream keeps, as indices."""

    read: Tensor | None  # None: it reads the image
    write: Tensor


class Affine(NamedTuple):
    """scale * x + shift, by channel."""

    scale: Tensor
    shift: Tensor


class CompactGate(nn.Module):
    """A gate of one task (paper, Section 3.2) with its BatchNorm folded, on the channels that are left.

    ``missing`` sealed channels may have been left out on purpose: what the gate would have opened there is returned.
    """

    def __init__(self, gate: ChannelGate, cut: Cut, input_scale: Tensor | None) -> None:
        super().__init__()
        norm = folded(gate.norm)
        squeeze = gate.squeeze.weight.double() * norm.scale[:, None]
        bias = gate.squeeze.bias.double() * norm.scale + norm.shift
        can_open = gate.seal & ~gate.pruned
        missing = can_open.index_fill(0, cut.write, False).nonzero().flatten()
        rows = torch.cat([cut.write, missing])
        excite = gate.excite.weight.double()[rows] * can_open[rows, None]
        last = torch.where(can_open[rows], gate.excite.bias.double()[rows], SHUT)
        width = filled(len(cut.write))  # channels that were filled up lie between the kept and the missing ones
        hold = excite.new_zeros(width - len(cut.write), excite.shape[1])
        kept = len(cut.write)
        self.width = width
        self.squeeze = linear(_columns(squeeze, cut.read, input_scale), bias)
        self.excite = linear(
            torch.cat([excite[:kept], hold, excite[kept:]]),
            torch.cat([last[:kept], torch.full_like(hold[:, 0], SHUT), last[kept:]]),
        )
        self.missing = len(missing)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Open gates (B, width) bool from the layer's input; and, if some are missing, where one was wanted, (B,)."""
        z = F.linear(mean(x), columns(self.squeeze.weight, held(x)), self.squeeze.bias).relu_()
        opened = F.linear(z, self.excite.weight, self.excite.bias) > 0
        if not self.missing:
            return opened, None
        return opened[:, : self.width], opened[:, self.width :].any(1)


class Compact(nn.Module):
    """A convolution or a linear layer, with its gate if it has one."""

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        stride: int = 1,
        padding: int = 0,
        gate: CompactGate | None = None,
        filters: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.filters = torch.arange(len(weight)) if filters is None else filters
        """Which of the whole layer they are; those that were filled up are none of it."""
        self.weight, self.bias = frozen(weight), frozen(bias)
        self.stride, self.padding, self.gate = stride, padding, gate
        self.one_reads = False
        """Whether one layer, and nothing else, reads what comes out: then filters that nobody wants can be missing."""

    @property
    def width(self) -> int:
        """How many channels come out."""
        return len(self.weight)

    def linear_map(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """The map being gated, of all filters or of ``rows``."""
        weight, bias = self._part(x, rows)
        if weight.dim() == 2:
            return F.linear(x, weight, bias)
        return F.conv2d(x, weight, bias, self.stride, self.padding)

    def mapped(self, x: Tensor, rows: Tensor | None, then: Then) -> Tensor:
        """The same, and ``then``."""
        if then is pool_relu:
            weight, bias = self._part(x, rows)
            if pays(x, weight, self.stride):
                return convolved_and_pooled(x, weight, bias, self.padding)
            if _in_pieces(weight):
                pieces = zip(
                    torch.split(weight, _piece(len(weight))), torch.split(bias, _piece(len(weight))), strict=True
                )
                return torch.cat([then(F.conv2d(x, w, b, self.stride, self.padding)) for w, b in pieces], dim=1)
        return then(self.linear_map(x, rows))

    def _part(self, x: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """Weights and biases of all filters, or of ``rows``, on the channels that ``x`` has."""
        weight, bias = columns(self.weight, held(x)), cast(Tensor, self.bias)
        return (weight, bias) if rows is None else (weight.index_select(0, rows), bias.index_select(0, rows))

    def forward(self, x: Tensor, task: int, then: Then) -> tuple[Tensor, Tensor | None]:
        """The gated output, and where a channel that was left out was wanted, (B,)."""
        return self.gating(x, lambda rows: self.mapped(x, rows, then))

    def gating(self, x: Tensor, maps: Callable[[Tensor | None], Tensor]) -> tuple[Tensor, Tensor | None]:
        """The same, where ``maps`` computes all filters, or some."""
        if self.gate is None:
            return maps(None), None
        opened, wanted = self.gate(x)
        rows = awake(opened) if self.one_reads else None
        if rows is None:
            return gated(maps(None), opened), wanted
        return holding(gated(maps(rows), opened.index_select(1, rows)), rows), wanted

    def spread(self, x: Tensor, task: int) -> Tensor:
        """Features stay cut: heads and task classifier are cut to fit."""
        return x


class Folded(nn.Module):
    """In the place of a BatchNorm that was folded into the layer before it."""

    def forward(self, x: Tensor, task: int) -> Tensor:
        """Nothing is left to do."""
        return x


def gated(h: Tensor, opened: Tensor) -> Tensor:
    """h (B, C[, H, W]) where its gate (B, C) is open, else zero; in place, for h is nobody else's."""
    return h.mul_(opened.to(h.dtype).reshape(*opened.shape, *[1] * (h.dim() - 2)))


def cut_layer(layer: Any, task: int, cut: Cut, norm: Affine | None, input_scale: Tensor | None) -> Compact:
    """What a stream keeps of ``layer``, with the ``norm`` that follows folded in."""
    weight = layer.weight.detach().double()[cut.write]
    bias = weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.detach().double()[cut.write]
    if norm is not None:
        scale, shift = norm.scale[cut.write], norm.shift[cut.write]
        weight, bias = weight * scale.reshape(-1, *[1] * (weight.dim() - 1)), bias * scale + shift
    weight = _columns(weight, cut.read, input_scale)
    rows = filled(len(weight)) - len(weight)
    weight = torch.cat([weight, weight.new_zeros(rows, *weight.shape[1:])])
    gate = CompactGate(layer.gate(task), cut, input_scale) if isinstance(layer, Gated) else None
    stride, padding = getattr(layer, "stride", 1), getattr(layer, "padding", 0)
    return Compact(weight, F.pad(bias, (0, rows)), stride, padding, gate, cut.write)


def compact(backbone: Backbone, task: int, keep: list[Tensor], input_scale: Tensor) -> Backbone:
    """The stream of ``task``, with the channels ``keep`` of each set of ``backbone.channels``.

    ``input_scale`` (C,) is multiplied into whatever reads the image.
    """
    read = {id(layer): kept for group, kept in zip(backbone.channels, keep, strict=True) for layer in group.readers}
    parts: dict[int, nn.Module] = {}
    for group, kept in zip(backbone.channels, keep, strict=True):
        for index, layer in enumerate(group.writers):
            norm = None
            if group.norms:  # norms[i] follows writers[i]
                norm = folded(_of_task(group.norms[index], task))
                parts[id(group.norms[index])] = Folded()
            reads = read.get(id(layer))
            scale = input_scale if reads is None else None
            made = cut_layer(layer, task, Cut(reads, kept), norm, scale)
            made.one_reads = len(group.writers) == len(group.readers) == 1
            parts[id(layer)] = made
    return rebuilt(backbone, parts)


def rebuilt(backbone: Backbone, parts: Mapping[int, nn.Module]) -> Backbone:
    """``backbone`` with other parts, by the id of the part they replace; its own ``forward`` runs them."""
    memo: dict[int, Any] = dict(parts)  # deepcopy asks its memo first: what is there has been copied already
    return copy.deepcopy(backbone, memo)


def folded(norm: Any) -> Affine:
    """A BatchNorm in evaluation mode as scale and shift."""
    scale = norm.weight.detach().double() / (norm.running_var.double() + norm.eps).sqrt()
    return Affine(scale, norm.bias.detach().double() - norm.running_mean.double() * scale)


def frozen(value: Tensor) -> nn.Parameter:
    """A parameter that never trains, its own copy, in the precision and layout that inference uses."""
    # Not `contiguous`: with one input channel both layouts hold the same bytes, and the strides decide.
    layout = torch.channels_last if value.dim() == 4 else torch.contiguous_format
    return nn.Parameter(value.detach().float().clone(memory_format=layout), requires_grad=False)


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A linear layer with these values."""
    layer = nn.Linear(weight.shape[1], len(weight), device="meta")
    layer.weight, layer.bias = frozen(weight), frozen(bias)
    return layer


def cut_inputs(layer: nn.Linear, read: Tensor) -> nn.Linear:
    """``layer`` on the channels ``read``, filled up."""
    return linear(_columns(layer.weight.detach(), read, None), layer.bias.detach())


def _in_pieces(weight: Tensor) -> bool:
    many = weight.dim() == 4 and weight.shape[1] <= FEW_INPUTS and len(weight) > PIECE
    return many and not torch.compiler.is_compiling()


def _piece(filters: int) -> int:
    """How many of so many filters to make at once: pieces of like size, full registers in all but the last."""
    pieces = -(-filters // PIECE)
    return -(-filters // pieces // REGISTER) * REGISTER


def filled(count: int) -> int:
    """``count`` channels, filled up."""
    return -(-count // LANES) * LANES


def _columns(weight: Tensor, read: Tensor | None, input_scale: Tensor | None) -> Tensor:
    """The inputs that are left of ``weight`` (c_out, c_in, ...), filled up; of an image's, scaled."""
    if read is None:
        if input_scale is None:
            return weight
        scale = input_scale.to(weight).repeat_interleave(weight.shape[1] // len(input_scale))  # pixels by channel
        return weight * scale.reshape(-1, *[1] * (weight.dim() - 2))
    cut = weight.index_select(1, read)
    return torch.cat([cut, cut.new_zeros(len(cut), filled(len(read)) - len(read), *cut.shape[2:])], dim=1)


def _of_task(norm: Any, task: int) -> Any:
    return norm.norms[task] if isinstance(norm, TaskNorm) else norm
