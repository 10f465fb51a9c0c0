"""Networks of Lockgate's own writing that start from weights of others."""

from __future__ import annotations

from lockgate.backbones.base import Backbone
from lockgate.backbones.efficientnet_lite0 import EfficientNetLite0
from lockgate.backbones.validation import make_backbone
from lockgate.backbones.weights import lite0_weights, load_weights
from lockgate.config import ModelConfig
from lockgate.errors import ConfigError
from lockgate.layers.plain import LayerFactory


def efficientnet_lite0(image_shape: tuple[int, int, int], layer_factory: LayerFactory, config: ModelConfig) -> Backbone:
    """EfficientNet-Lite0 with the weights of ``[pretrained]``, or others (``model.weights``)."""
    if image_shape[0] != 3:
        raise ConfigError([f"'efficientnet_lite0' takes colour images. Got {image_shape[0]} channels."])

    def make() -> EfficientNetLite0:
        network = EfficientNetLite0()
        if not config.weights:
            load_weights(network, str(lite0_weights()), "efficientnet_lite0")
        return network

    return make_backbone(make, "efficientnet_lite0", image_shape, layer_factory, config)
