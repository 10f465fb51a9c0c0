"""Networks that Lockgate did not write (transformers, tiny, random), and hand-written ones with what makes trouble."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

_SMALL: dict[str, Any] = {"num_labels": 7}
_STAGES: dict[str, Any] = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1], **_SMALL}
_RESNET: dict[str, Any] = {"embedding_size": 8, **_STAGES}
_TOKENS: dict[str, Any] = {"image_size": 16, "patch_size": 4, "num_attention_heads": 2, "hidden_size": 16}

TRANSFORMERS: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet_basic": ("ResNet", {**_RESNET, "layer_type": "basic"}),
    "resnet_bottleneck": ("ResNet", {**_RESNET, "layer_type": "bottleneck"}),
    "regnet_x": ("RegNet", {**_RESNET, "groups_width": 8, "layer_type": "x"}),
    "regnet_y": ("RegNet", {**_RESNET, "groups_width": 8, "layer_type": "y"}),
    "mobilenet_v1": ("MobileNetV1", {"depth_multiplier": 0.25, **_SMALL}),
    "mobilenet_v2": ("MobileNetV2", {"depth_multiplier": 0.25, **_SMALL}),
    "efficientnet": (
        "EfficientNet",
        {
            "width_coefficient": 0.25,
            "depth_coefficient": 0.5,
            "hidden_dim": 320,
            "kernel_sizes": [3] * 7,
            "strides": [1, 1, 2, 1, 1, 2, 1],
            **_SMALL,
        },
    ),
    "convnext": ("ConvNext", {**_STAGES, "patch_size": 2}),
    "convnext_v2": ("ConvNextV2", {**_STAGES, "patch_size": 2}),
    "bit": ("Bit", {**_RESNET, "num_groups": 4}),
    "poolformer": ("PoolFormer", {**_STAGES, "num_encoder_blocks": 4}),
    "swin": (
        "Swin",
        {"image_size": 16, "patch_size": 2, "window_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2]},
    ),
    "vit": ("ViT", {**_TOKENS, "num_hidden_layers": 2, "intermediate_size": 32, **_SMALL}),
}
"""By name: the class's name without its ending, and what its config is given; all take images of 16 pixels."""


def from_transformers(name: str) -> nn.Module:
    """A network of transformers with random weights, and statistics as if it had been trained: no norm is neutral."""
    import transformers

    kind, config = TRANSFORMERS[name]
    made = getattr(transformers, f"{kind}Config")(**config)
    network: nn.Module = getattr(transformers, f"{kind}ForImageClassification")(made)
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.normal_(part.running_mean, 0, 0.1)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
    return network


globals().update({name: functools.partial(from_transformers, name) for name in TRANSFORMERS})


class Plain(nn.Module):
    """Convolutions, in-place activations, pooling; linear layers with dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU()
        )
        self.fc = nn.Sequential(nn.Flatten(), nn.LazyLinear(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 7))

    def forward(self, x):
        return self.fc(self.conv(x))


class Functional(nn.Module):
    """Functional calls, a ``view``, and one layer whose weight is used without calling it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.fc, self.out = nn.BatchNorm2d(8), nn.Linear(8 * 16, 12), nn.Linear(12, 7)

    def forward(self, x):
        x = F.relu(F.conv2d(x, self.a.weight, self.a.bias, self.a.stride, self.a.padding))
        x = F.relu(self.norm(self.b(x)) + x)
        x = F.adaptive_avg_pool2d(x, 4)
        return self.out(F.relu(self.fc(x.view(x.size(0), -1))))


class Shared(nn.Module):
    """One activation used thrice, a convolution called twice, one registered twice, two tied linear maps."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True)
        self.twice, self.norm = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.again = self.twice
        self.one, self.two, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 7)
        self.two.weight = self.one.weight

    def forward(self, x):
        x = self.relu(self.stem(x))
        for _ in range(2):
            x = self.relu(self.norm(self.twice(x)) + x)
        x = self.relu(self.again(x)).mean((2, 3))
        return F.log_softmax(self.out(self.two(self.relu(self.one(x)))), 1)


class Concatenated(nn.Module):
    """Branches side by side, one norm over all, grouped and shuffled channels, a strided convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.branches = nn.ModuleList([nn.Conv2d(8, 8, k, padding=k // 2) for k in (1, 3, 5)])
        self.norm, self.grouped = nn.GroupNorm(3, 24), nn.Conv2d(24, 24, 3, groups=4, stride=2, padding=1, bias=False)
        self.batch_norm, self.depthwise = nn.BatchNorm2d(24), nn.Conv2d(24, 24, 3, groups=24, padding=1)
        self.act, self.out = nn.Hardswish(), nn.Linear(24, 7)

    def forward(self, x):
        x = self.act(self.stem(x))
        x = self.act(self.norm(torch.cat([branch(x) for branch in self.branches], 1)))
        x = self.act(self.batch_norm(self.grouped(x)))
        x = x.unflatten(1, (4, 6)).transpose(1, 2).flatten(1, 2)
        return self.out(self.act(self.depthwise(x)).mean((2, 3)))


class Loose(nn.Module):
    """A parameter that belongs to no layer, a branch that depends on the data, features instead of classes."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Parameter(torch.randn(8, 3, 3, 3) * 0.1)
        self.conv, self.norm = nn.Conv2d(8, 12, 3), nn.InstanceNorm2d(12, affine=True)

    def forward(self, x):
        x = F.relu(F.conv2d(x, self.filters))
        if x.mean() > 1e6:
            x = x * 2
        return F.relu(self.norm(self.conv(x)))


HAND_WRITTEN: dict[str, Callable[[], nn.Module]] = {
    kind.__name__: kind for kind in (Plain, Functional, Shared, Concatenated, Loose)
}
