"""SimpleCNN (paper, Section 4.1): three 3x3 convolutions, global average pool. No BatchNorm.

conv1 - ReLU - pool - gate - conv2 - ReLU - pool - gate - conv3 - ReLU - gate - global average pool
"""

from __future__ import annotations

from torch import Tensor

from lockgate.backbones.base import Backbone, Channels, Stream, as_stream
from lockgate.config import ModelConfig
from lockgate.layers.plain import LayerFactory
from lockgate.layers.pool import pool_relu, relu


class SimpleCNN(Backbone):
    """Three convolutions of ``width`` filters (100 in the paper), gated after the pooling."""

    def __init__(self, image_shape: tuple[int, int, int], layer_factory: LayerFactory, config: ModelConfig) -> None:
        super().__init__()
        width = config.width or 100
        self.conv1 = layer_factory.conv(image_shape[0], width, 3, padding=1)
        self.conv2 = layer_factory.conv(width, width, 3, padding=1)
        self.conv3 = layer_factory.conv(width, width, 3, padding=1)
        for index, name in enumerate(("conv1", "conv2", "conv3")):
            self.add_layer(name, getattr(self, name), index - 1 if index else None)
        self.channels = [
            Channels([self.conv1], [self.conv2], []),
            Channels([self.conv2], [self.conv3], []),
            Channels([self.conv3], [], []),
        ]

    def forward(self, x: Tensor, task: int) -> Stream:
        """(B, C, H, W) to features (B, width)."""
        x, gate1 = self.conv1(x, task, pool_relu)  # (B, width, H/2, W/2)
        x, gate2 = self.conv2(x, task, pool_relu)  # (B, width, H/4, W/4)
        x, gate3 = self.conv3(x, task, relu)
        return as_stream(self.conv3, x.mean((2, 3)), task, [gate1, gate2, gate3])
