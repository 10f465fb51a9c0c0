"""Two fully connected layers. The paper says that its gating applies to fully connected layers too; here it does."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

from lockgate.backbones.base import Backbone, Channels, Stream, as_stream
from lockgate.config import ModelConfig
from lockgate.layers.plain import LayerFactory


class MLP(Backbone):
    """pixels - Linear - ReLU - gate - Linear - ReLU - gate."""

    def __init__(self, image_shape: tuple[int, int, int], layer_factory: LayerFactory, config: ModelConfig) -> None:
        super().__init__()
        width = config.width or 100
        self.fc1 = layer_factory.linear(math.prod(image_shape), width)
        self.fc2 = layer_factory.linear(width, width)
        self.add_layer("fc1", self.fc1, None)
        self.add_layer("fc2", self.fc2, 0)
        self.channels = [Channels([self.fc1], [self.fc2], []), Channels([self.fc2], [], [])]

    def forward(self, x: Tensor, task: int) -> Stream:
        """(B, C, H, W) to features (B, width)."""
        x, gate1 = self.fc1(x.flatten(1), task, F.relu)
        x, gate2 = self.fc2(x, task, F.relu)
        return as_stream(self.fc2, x, task, [gate1, gate2])
