"""All streams as one network, their channels side by side: the fewest calls for a small batch.

What reads the image is one convolution for all streams. Deeper layers are one convolution a stream, since streams
differ in width; gates are batched matrix products, and all that is done element by element is done once.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.backbones.base import Backbone
from lockgate.inference.compact import SHUT, Compact, CompactGate, Folded, frozen, gated, rebuilt
from lockgate.layers.plain import Then


class SideBySide(nn.Module):
    """Columns of several streams, (B, sum of widths), as a stack (streams, B, largest width), and back.

    Where a stream has fewer columns, its last places of the stack hold anything: weights there are zero.
    """

    places: Tensor
    columns: Tensor

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.streams, self.width = len(widths), max(widths)
        self.even = len(set(widths)) == 1
        places, columns, start = [], [], 0
        for t, width in enumerate(widths):
            inside = torch.arange(self.width)
            places.append(torch.where(inside < width, start + inside, 0))
            columns.append(t * self.width + torch.arange(width))
            start += width
        self.register_buffer("places", torch.cat(places))
        self.register_buffer("columns", torch.cat(columns))

    def stack(self, x: Tensor) -> Tensor:
        """(B, sum of widths) to (streams, B, largest width)."""
        spread = x if self.even else x.index_select(1, self.places)
        return spread.reshape(-1, self.streams, self.width).transpose(0, 1)

    def unstack(self, x: Tensor) -> Tensor:
        """(streams, B, largest width) to (B, sum of widths)."""
        flat = x.transpose(0, 1).reshape(-1, self.streams * self.width)
        return flat if self.even else flat.index_select(1, self.columns)


class Stacked(nn.Module):
    """One linear layer a stream, as one batched product: (streams, B, in) to (streams, B, out)."""

    def __init__(self, layers: list[nn.Linear], fill: float = 0.0) -> None:
        super().__init__()
        inputs, outputs = max(x.in_features for x in layers), max(x.out_features for x in layers)
        weight = torch.zeros(len(layers), inputs, outputs)
        bias = torch.full((len(layers), 1, outputs), fill)
        for t, layer in enumerate(layers):
            weight[t, : layer.in_features, : layer.out_features] = layer.weight.detach().T
            bias[t, 0, : layer.out_features] = layer.bias.detach()
        self.weight, self.bias = frozen(weight), frozen(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map each stream's part."""
        return torch.baddbmm(self.bias, x, self.weight)


class FusedGate(nn.Module):
    """The gates of one layer, of all streams."""

    def __init__(self, gates: list[CompactGate], shared: bool) -> None:
        super().__init__()
        self.inputs = None if shared else SideBySide([gate.squeeze.in_features for gate in gates])
        self.squeeze = Stacked([gate.squeeze for gate in gates])
        self.excite = Stacked([gate.excite for gate in gates], SHUT)
        self.outputs = SideBySide([gate.width for gate in gates])

    def forward(self, x: Tensor) -> Tensor:
        """Open gates (B, sum of widths) from the layer's input."""
        pooled = x.mean((2, 3)) if x.dim() == 4 else x
        if self.inputs is None:
            parts = pooled.expand(self.outputs.streams, *pooled.shape)
        else:
            parts = self.inputs.stack(pooled)
        return self.outputs.unstack(self.excite(F.relu(self.squeeze(parts)))) > 0


class Fused(nn.Module):
    """One layer of all streams."""

    def __init__(self, layers: list[Compact], shared: bool) -> None:
        super().__init__()
        self.shared = shared
        self.reads = [layer.weight.shape[1] for layer in layers]
        self.layers = nn.ModuleList([_joined(layers)] if shared else layers)
        gates = [layer.gate for layer in layers if layer.gate is not None]
        self.gate = FusedGate(gates, shared)

    def forward(self, x: Tensor, task: int, then: Then) -> tuple[Tensor, None]:
        """(B, all streams' inputs, ...) to (B, all streams' outputs, ...)."""
        parts = [x] if self.shared else torch.split(x, self.reads, dim=1)
        outs = [cast(Compact, layer).linear_map(part) for layer, part in zip(self.layers, parts, strict=True)]
        h = outs[0] if len(outs) == 1 else torch.cat(outs, dim=1)
        return gated(then(h), self.gate(x)), None

    def spread(self, x: Tensor, task: int) -> Tensor:
        """Features of all streams, side by side."""
        return x


def fused(streams: list[Backbone]) -> Backbone:
    """Compact streams with nothing missing, as one backbone."""
    first = streams[0]
    parts: dict[int, nn.Module] = {id(m): Folded() for m in first.modules() if isinstance(m, Folded)}
    for (name, layer), source in zip(first.layers.items(), first.sources, strict=True):
        parts[id(layer)] = Fused([_layer(stream, name) for stream in streams], shared=source is None)
    return rebuilt(first, parts)


def _layer(stream: Backbone, name: str) -> Any:
    return stream.layers[name]


def _joined(layers: list[Compact]) -> Compact:
    """Layers that read the same, as one; without gates."""
    first = layers[0]
    weight, bias = (torch.cat([getattr(layer, name) for layer in layers]) for name in ("weight", "bias"))
    return Compact(weight, bias, first.stride, first.padding)
