"""Plain backbones against torch's own layers with the same weights; shapes and wiring of the gated ones."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockgate.backbones import BACKBONES
from lockgate.config import ModelConfig
from lockgate.methods.ccgn.method import CCGN, CCGNOptions
from lockgate.methods.finetune import Finetune

NAMES = ("simple_cnn", "resnet18", "mlp")
SHAPES = ((1, 8, 8), (1, 28, 28), (3, 32, 32))
PLAIN, GATED = Finetune.layer_factory("torch", None), CCGN.layer_factory("torch", CCGNOptions())


def make(name, shape, layer_factory, seed=0, tasks=1, **config):
    torch.manual_seed(seed)
    backbone = BACKBONES[name](shape, layer_factory, ModelConfig(**config))
    for _ in range(tasks):
        backbone.add_task()
    return backbone


def mix_gates(backbone, task=0):
    """Open about half of the gates, whatever the input, and no two layers alike."""
    for layer in backbone.layers.values():
        excite = layer.gate(task).excite
        nn.init.zeros_(excite.weight)
        nn.init.normal_(excite.bias)


class Block(nn.Module):
    """A basic block, straightforwardly."""

    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(c_out)
        self.short = nn.Identity()
        if stride > 1:
            self.short = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x):
        h = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(h + self.short(x))


def reference_resnet(c_in, width):
    """ResNet-18 in its CIFAR form."""
    layers = [nn.Conv2d(c_in, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    now = width
    for stage in range(4):
        for b in range(2):
            layers.append(Block(now, width * 2**stage, 2 if stage > 0 and b == 0 else 1))
            now = width * 2**stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layer_factory", [PLAIN, GATED], ids=["plain", "gated"])
@pytest.mark.parametrize(("name", "features", "gates"), [("simple_cnn", 6, 3), ("resnet18", 48, 20), ("mlp", 6, 2)])
def test_every_backbone_takes_every_image_size(name, features, gates, layer_factory, shape):
    backbone = make(name, shape, layer_factory, width=6).train()
    stream = backbone(torch.randn(2, *shape), 0)
    assert stream.features.shape == (2, features)
    assert backbone.features == features
    assert len(backbone.layers) == gates
    wanted = [(2, layer.width) for layer in backbone.layers.values()] if layer_factory is GATED else []
    assert [tuple(gate.shape) for gate in stream.gates] == wanted


@pytest.mark.parametrize(("name", "width"), [("simple_cnn", 100), ("resnet18", 64), ("mlp", 100)])
def test_the_default_width_is_the_papers(name, width):
    assert make(name, (1, 8, 8), PLAIN).widths()[0] == width


def test_a_plain_simple_cnn_is_a_torch_sequential():
    backbone = make("simple_cnn", (3, 32, 32), PLAIN, width=7)
    convs = [nn.Conv2d(c, 7, 3, padding=1) for c in (3, 7, 7)]
    for conv, layer in zip(convs, backbone.layers.values(), strict=True):
        conv.load_state_dict(layer.state_dict())
    reference = nn.Sequential(
        *(convs[0], nn.ReLU(), nn.MaxPool2d(2), convs[1], nn.ReLU(), nn.MaxPool2d(2), convs[2], nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
    x = torch.randn(3, 3, 32, 32)
    assert torch.allclose(backbone(x, 0).features, reference(x), atol=1e-6)


def test_a_plain_mlp_is_a_torch_sequential():
    backbone = make("mlp", (3, 8, 8), PLAIN, width=9)
    reference = nn.Sequential(nn.Flatten(), nn.Linear(192, 9), nn.ReLU(), nn.Linear(9, 9), nn.ReLU())
    reference[1].load_state_dict(backbone.fc1.state_dict())
    reference[3].load_state_dict(backbone.fc2.state_dict())
    x = torch.randn(3, 3, 8, 8)
    assert torch.allclose(backbone(x, 0).features, reference(x), atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_plain_resnet_is_a_straightforward_one(channels):
    backbone = make("resnet18", (channels, 16, 16), PLAIN, width=4)
    reference = reference_resnet(channels, 4)
    mine, theirs = backbone.state_dict(), reference.state_dict()
    assert [v.shape for v in mine.values()] == [v.shape for v in theirs.values()]  # both are written in forward order
    reference.load_state_dict(dict(zip(theirs, mine.values(), strict=True)))
    x = torch.randn(6, channels, 16, 16)
    assert torch.allclose(backbone.train()(x, 0).features, reference.train()(x), atol=1e-5)
    assert torch.allclose(backbone.eval()(x, 0).features, reference.eval()(x), atol=1e-5)  # statistics moved alike


@pytest.mark.parametrize("name", NAMES)
def test_with_all_gates_open_a_gated_backbone_is_the_plain_one(name):
    plain, gated = (make(name, (3, 16, 16), layer_factory, width=4) for layer_factory in (PLAIN, GATED))
    for mine, theirs in zip(gated.layers.values(), plain.layers.values(), strict=True):
        mine.load_state_dict({**mine.state_dict(), **theirs.state_dict()})
        nn.init.constant_(mine.gate(0).excite.bias, 100.0)
    x = torch.randn(4, 3, 16, 16)
    assert torch.allclose(gated.train()(x, 0).features, plain.train()(x, 0).features, atol=1e-5)
    assert torch.allclose(gated.eval()(x, 0).features, plain.eval()(x, 0).features, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_one_trains(name):
    backbone = make(name, (1, 28, 28), GATED, width=4).train()
    backbone(torch.randn(1, 1, 28, 28), 0).features.sum().backward()
    assert all(layer.weight.grad is not None for layer in backbone.layers.values())


@pytest.mark.parametrize("name", NAMES)
def test_sources_name_the_gate_that_shuts_each_layers_inputs(name):
    backbone = make(name, (3, 16, 16), GATED, width=8).eval()
    mix_gates(backbone)
    inputs = []
    for layer in backbone.layers.values():
        layer.register_forward_hook(lambda _, args, __: inputs.append(args[0]))
    with torch.no_grad():
        gates = backbone(torch.randn(3, 3, 16, 16), 0).gates
    for x, source in zip(inputs, backbone.sources, strict=True):
        if source is None:
            assert x.flatten(2).any(2).all() if x.dim() == 4 else x.any(1).all()
            continue
        alive = x.flatten(2).any(2) if x.dim() == 4 else x != 0  # (B, c_in)
        assert 0 < gates[source].mean() < 1
        assert not alive[gates[source] == 0].any()
        assert alive[gates[source] == 1].any()


def test_resnet_sources_by_name():
    backbone = make("resnet18", (3, 8, 8), GATED, width=2)
    names = list(backbone.layers)
    named = {name: None if s is None else names[s] for name, s in zip(names, backbone.sources, strict=True)}
    assert named["stem"] is None
    assert named["stage1.block1.conv1"] == "stem"
    assert named["stage1.block1.conv2"] == "stage1.block1.conv1"
    assert named["stage1.block2.conv1"] == "stage1.block1.conv2"
    assert named["stage2.block1.conv1"] == named["stage2.block1.shortcut"] == "stage1.block2.conv2"
    assert named["stage2.block1.conv2"] == "stage2.block1.conv1"
    assert [name for name in names if "shortcut" in name] == [f"stage{s}.block1.shortcut" for s in (2, 3, 4)]


def test_gates_are_returned_in_the_order_of_the_layers():
    backbone = make("resnet18", (3, 8, 8), GATED, width=3).eval()
    mix_gates(backbone)
    gates = backbone(torch.randn(2, 3, 8, 8), 0).gates
    for gate, layer in zip(gates, backbone.layers.values(), strict=True):
        assert torch.equal(gate[0], (layer.gate(0).excite.bias > 0).float())


def test_blocks_per_stage_can_be_chosen():
    backbone = make("resnet18", (3, 8, 8), PLAIN, width=2, blocks=(1, 3))
    assert len(backbone.blocks) == 4
    assert backbone.features == 4


def test_a_stream_of_shut_gates_gives_constant_features():
    backbone = make("simple_cnn", (1, 8, 8), GATED, width=4).eval()
    nn.init.constant_(backbone.conv3.gate(0).excite.bias, -100.0)
    assert not backbone(torch.randn(3, 1, 8, 8), 0).features.any()


def test_simple_cnn_gates_after_the_pooling():
    backbone = make("simple_cnn", (1, 8, 8), GATED, width=4).eval()
    mix_gates(backbone)
    seen = []
    backbone.conv2.register_forward_hook(lambda _, args, __: seen.append(args[0]))
    x = torch.randn(3, 1, 8, 8)
    gate = backbone(x, 0).gates[0]
    conv = backbone.conv1
    pooled = F.max_pool2d(F.relu(F.conv2d(x, conv.weight, conv.bias, padding=1)), 2)
    assert torch.allclose(seen[0], pooled * gate[:, :, None, None], atol=1e-6)
