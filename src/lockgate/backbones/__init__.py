"""networks from pixels to pooled features, plain and gated from one definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lockgate.registry import Entry, Registry

if TYPE_CHECKING:
    from lockgate.backbones.base import Backbone

OWN = ("simple_cnn", "resnet18", "mlp")
"""Networks that are built of a method's own layers, from scratch."""

BACKBONES: Registry[Callable[..., Backbone]] = Registry(
    "backbone",
    {
        "simple_cnn": Entry(
            "lockgate.backbones.simple_cnn:SimpleCNN", "The paper's three 3x3 convolutions of 100 filters."
        ),
        "resnet18": Entry(
            "lockgate.backbones.resnet:ResNet", "ResNet-18 in its CIFAR form (3x3 stem, no stem pooling)."
        ),
        "efficientnet_lite0": Entry(
            "lockgate.backbones.pretrained:efficientnet_lite0",
            "EfficientNet-Lite0 with its ImageNet weights: the extra `pretrained`.",
        ),
        "mlp": Entry("lockgate.backbones.mlp:MLP", "Two fully connected layers of 100 units."),
    },
    group="lockgate.backbones",
    check="lockgate.backbones.validation:factory_problems",
    schemes=dict.fromkeys(("timm", "transformers"), "lockgate.backbones.named:named"),
)
"""Factories ``(image_shape, layer_factory, config) -> Backbone``; one's own may also make a plain ``nn.Module``."""
