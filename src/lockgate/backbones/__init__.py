"""networks from pixels to pooled features, plain and gated from one definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lockgate.registry import Entry, Registry

if TYPE_CHECKING:
    from lockgate.backbones.base import Backbone

BACKBONES: Registry[Callable[..., Backbone]] = Registry(
    "backbone",
    {
        "simple_cnn": Entry(
            "lockgate.backbones.simple_cnn:SimpleCNN", "The paper's three 3x3 convolutions of 100 filters."
        ),
        "resnet18": Entry(
            "lockgate.backbones.resnet:ResNet", "ResNet-18 in its CIFAR form (3x3 stem, no stem pooling)."
        ),
        "mlp": Entry("lockgate.backbones.mlp:MLP", "Two fully connected layers of 100 units."),
    },
)
"""Factories ``(image_shape, layer_factory, config) -> Backbone``."""
