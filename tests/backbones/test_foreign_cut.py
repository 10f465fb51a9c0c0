"""Streams of given networks without what their seals shut answer as the whole ones; what is not known stays."""

from __future__ import annotations

import importlib.util

import pytest
import torch
import torch.nn.functional as F
from tests.support.networks import HAND_WRITTEN, from_transformers
from torch import nn

from lockgate.backbones.efficientnet_lite0 import EfficientNetLite0
from lockgate.backbones.foreign import gate
from lockgate.backbones.foreign_cut import cut_stream, cuttable
from lockgate.inference.check import TOLERANCE
from lockgate.layers.slots import SlotMap

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed: pip install transformers"
)


class Residual(nn.Module):
    """A stem and two writers of one trunk, each with a norm; inside, channels of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.inner, self.inner_norm = nn.Conv2d(8, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.outer, self.outer_norm = nn.Conv2d(6, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.stem_norm(self.stem(x)))
        x = F.relu(self.outer_norm(self.outer(F.relu(self.inner_norm(self.inner(x))))) + x)
        return self.out(F.avg_pool2d(x, 2).flatten(2).mean(2))


class Branches(nn.Module):
    """Concatenation, a depthwise and a grouped convolution, a flattening."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.act = nn.Conv2d(3, 6, 1), nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(inplace=True)
        self.depthwise = nn.Conv2d(12, 12, 3, padding=1, groups=12, bias=False)
        self.mix, self.grouped = nn.Conv2d(12, 8, 1), nn.Conv2d(8, 8, 3, groups=2, padding=1)
        self.last, self.fc, self.out = nn.Conv2d(8, 6, 1), nn.Linear(6 * 4, 10), nn.Linear(10, 5)

    def forward(self, x):
        x = self.act(torch.cat([self.one(x), self.two(x)], 1))
        x = self.act(self.mix(self.depthwise(x)))
        x = self.act(self.last(self.act(self.grouped(x))))
        return self.out(self.act(self.fc(F.adaptive_max_pool2d(x, 2).flatten(1))))


class Sliced(nn.Module):
    """Half of the channels are taken by their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.out = nn.Conv2d(3, 8, 3), nn.Conv2d(4, 6, 3), nn.Linear(6, 5)

    def forward(self, x):
        return self.out(F.relu(self.two(F.relu(self.one(x))[:, 2:6])).mean((2, 3)))


class Shifted(Sliced):
    """What a seal shuts is not zero any more where it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.two = nn.Conv2d(8, 6, 3)

    def forward(self, x):
        return self.out(F.relu(self.two(torch.sigmoid(self.one(x)) + 1)).mean((2, 3)))


class Literal(Shifted):
    """It counts on eight channels."""

    def forward(self, x):
        return self.out(F.relu(self.two(F.relu(self.one(x)))).view(len(x), 6, -1).mean(2))


def made(network: nn.Module, size: int = 16):
    """As a backbone with gates, two tasks, and norms and rows that are not as they were given."""
    torch.manual_seed(0)
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.normal_(part.running_mean, 0, 0.1)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
            nn.init.normal_(part.bias, 0, 0.1)
    backbone = gate(network.eval(), torch.randn(2, 3, size, size), gates=True)
    for _ in range(2):
        backbone.add_task()
    with torch.no_grad():
        for slot in backbone.slots:
            for parameter in slot.own[1].parameters():
                parameter.add_(torch.randn_like(parameter) * 0.05)
    return backbone.eval()


def gated(backbone) -> dict[str, SlotMap]:
    return {slot.name: slot for slot in backbone.slots if isinstance(slot, SlotMap) and slot.gated}


def shut(backbone, **channels: list[int]) -> None:
    for name, which in channels.items():
        gated(backbone)[name].gate(1).seal[which] = False


def shut_half(backbone) -> None:
    draw = torch.Generator().manual_seed(1)
    for slot in gated(backbone).values():
        slot.gate(1).seal.copy_(torch.rand(slot.width, generator=draw) < 0.5)


def shapes_of(stream, *names: str) -> list[tuple[int, ...]]:
    """Rows and columns of weights."""
    return [tuple(stream.module.get_submodule(name).weight.shape[:2]) for name in names]


@torch.no_grad()
def require_agreement(backbone, stream, size: int = 16) -> None:
    """On other images than those it was cut by."""
    x = torch.randn(16, 3, size, size)
    wanted = backbone(x, 1).features
    found = torch.zeros_like(wanted).index_copy(1, stream.places, stream(x))
    assert (found - wanted).abs().max() <= TOLERANCE * wanted.abs().clamp(min=1).max()
    assert wanted.abs().max() > 0.01, "all features are zero: the test would prove nothing"


def test_a_sum_loses_a_channel_only_if_all_that_is_added_is_shut():
    backbone = made(Residual())
    shut(backbone, stem=[1, 2, 5], outer=[2, 3], inner=[0, 4])
    stream = cut_stream(backbone, 1)
    assert stream is not None
    assert stream.places.tolist() == [0, 1, 3, 4, 5, 6, 7]  # of the trunk, 2 alone
    assert shapes_of(stream, "stem", "inner", "outer") == [(7, 3), (4, 7), (7, 4)]
    require_agreement(backbone, stream)


def test_branches_depthwise_and_flattened_channels_are_cut_and_grouped_ones_stay():
    backbone = made(Branches())
    shut(backbone, one=[0, 5], two=[3], mix=[0, 1], grouped=[1], last=[2])
    stream = cut_stream(backbone, 1)
    assert stream is not None
    assert shapes_of(stream, "one", "two", "depthwise") == [(4, 3), (5, 3), (9, 1)]
    assert shapes_of(stream, "mix", "grouped") == [(8, 9), (8, 4)]
    assert shapes_of(stream, "last", "fc") == [(5, 8), (10, 5 * 4)]
    assert stream.module.depthwise.groups == stream.module.depthwise.out_channels == 9
    require_agreement(backbone, stream)


@pytest.mark.parametrize("network", [Sliced, Shifted])
def test_what_is_not_zero_or_not_known_where_it_is_read_stays(network):
    backbone = made(network())
    shut(backbone, one=[0, 1, 2, 3])
    assert cut_stream(backbone, 1) is None
    shut(backbone, two=[1])
    stream = cut_stream(backbone, 1)
    assert stream is not None
    assert stream.places.tolist() == [0, 2, 3, 4, 5]
    require_agreement(backbone, stream)


def test_a_network_that_counts_on_a_number_of_channels_stays_as_it_is():
    backbone = made(Literal())
    shut(backbone, two=[1])
    assert cut_stream(backbone, 1) is None


def test_without_seals_there_is_nothing_to_cut():
    backbone = made(Residual())
    assert cut_stream(backbone, 0) is None
    assert cut_stream(gate(Residual(), torch.randn(2, 3, 16, 16)), 0) is None


def test_a_layer_that_is_all_shut_keeps_one_filter():
    backbone = made(Residual())
    shut(backbone, inner=list(range(6)))
    stream = cut_stream(backbone, 1)
    assert stream is not None
    assert shapes_of(stream, "inner") == [(1, 8)]
    require_agreement(backbone, stream)


def test_nearly_all_of_lite0_can_be_cut():
    size = 64
    backbone = made(EfficientNetLite0(), size)
    found = cuttable(backbone)
    assert found.channels > 0.95 * found.gated
    shut_half(backbone)
    stream = cut_stream(backbone, 1)
    assert stream is not None
    whole = sum(slot.weight.numel() for slot in backbone.slots if isinstance(slot, SlotMap))
    assert sum(slot.weight.numel() for slot in stream.module.modules() if isinstance(slot, SlotMap)) < 0.5 * whole
    require_agreement(backbone, stream, size)


CUT = ("resnet_basic", "resnet_bottleneck", "regnet_x", "regnet_y", "mobilenet_v2", "efficientnet", "convnext", "swin")
"""Of the networks in ``tests/support``, those of which something can be cut."""


@pytest.mark.parametrize(
    "name", ["Plain", "Shared", "Concatenated", *(pytest.param(n, marks=needs_transformers) for n in CUT)]
)
def test_networks_of_others_agree_with_half_of_their_gates_shut(name):
    backbone = made(HAND_WRITTEN[name]() if name in HAND_WRITTEN else from_transformers(name))
    assert cuttable(backbone).channels > 0
    shut_half(backbone)
    stream = cut_stream(backbone, 1)
    assert stream is not None
    require_agreement(backbone, stream)
