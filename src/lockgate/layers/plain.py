"""What a backbone is made of: one interface, so that plain and gated networks come from one definition.

A layer is called as ``layer(x, task, then)`` and returns ``(output, gate)``: ``then`` is what stands between the layer
and its gate (ReLU, pooling, BatchNorm, addition); ``gate`` is (B, c_out) of 0 and 1, or None where nothing is gated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.layers.init import Init, initialise

Then = Callable[[Tensor], Tensor]


class LayerFactory(NamedTuple):
    """The parts a backbone is built from; each has the signature of the torch layer it replaces."""

    conv: Callable[..., nn.Module]
    linear: Callable[..., nn.Module]
    norm: Callable[[int], nn.Module]
    adapt: Callable[..., Any] | None = None
    """Makes a backbone of a whole ``nn.Module`` of another make: (module, image_shape, config, name). None: it is used
    as it is, for its features."""


class PlainConv2d(nn.Conv2d):
    """A convolution with no gate."""

    def __init__(self, *args: Any, init: Init = "he", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        initialise(self.weight.data, None if self.bias is None else self.bias.data, init)

    @property
    def width(self) -> int:
        """How many filters there are."""
        return self.out_channels

    def add_task(self) -> None:
        """Nothing here belongs to a task."""

    def spread(self, x: Tensor, task: int) -> Tensor:
        """Nothing is ever pruned here."""
        return x

    def forward(self, x: Tensor, task: int, then: Then) -> tuple[Tensor, None]:  # type: ignore[override]
        """Convolve, then apply ``then``."""
        return then(super().forward(x)), None


class PlainLinear(nn.Linear):
    """A fully connected layer with no gate."""

    def __init__(self, *args: Any, init: Init = "he", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        initialise(self.weight.data, None if self.bias is None else self.bias.data, init)

    @property
    def width(self) -> int:
        """How many units there are."""
        return self.out_features

    def add_task(self) -> None:
        """Nothing here belongs to a task."""

    def spread(self, x: Tensor, task: int) -> Tensor:
        """Nothing is ever pruned here."""
        return x

    def forward(self, x: Tensor, task: int, then: Then) -> tuple[Tensor, None]:  # type: ignore[override]
        """Map, then apply ``then``."""
        return then(F.linear(x, self.weight, self.bias)), None
