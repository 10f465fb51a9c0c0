"""Widening keeps the bits of past streams, in both memory formats."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lockgate.backbones import BACKBONES
from lockgate.backbones.base import widths_with_free
from lockgate.config import ModelConfig
from lockgate.methods.ccgn.method import CCGN, CCGNOptions

KIT = CCGN.layer_factory("he", CCGNOptions())
FORMATS = [torch.contiguous_format, torch.channels_last]
CASES = [(name, batch) for name in ("simple_cnn", "resnet18", "mlp") for batch in (1, 5)]


def make(name, width=16, shape=(1, 8, 8), memory_format=torch.contiguous_format):
    torch.manual_seed(0)
    backbone = BACKBONES[name](shape, KIT, ModelConfig(width=width, blocks=(1, 2, 1)))
    backbone.add_task()
    for layer in backbone.layers.values():
        nn.init.normal_(layer.gate(0).excite.weight)
    return backbone.to(memory_format=memory_format).eval()


@torch.no_grad()
def run(backbone, x, task=0):
    stream = backbone(x, task)
    return [stream.features, *stream.gates]


def all_equal(one, two):
    return all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("memory_format", FORMATS, ids=["contiguous", "channels_last"])
@pytest.mark.parametrize(("name", "batch"), CASES)
def test_growth_keeps_every_bit_of_past_streams(name, batch, memory_format):
    backbone = make(name, memory_format=memory_format)
    x = torch.randn(batch, 1, 8, 8).to(memory_format=memory_format)
    first = run(backbone, x)
    backbone.grow([width + 3 for width in backbone.widths()])
    backbone.add_task()
    backbone.to(memory_format=memory_format).eval()
    assert all_equal(run(backbone, x), first)
    second = run(backbone, x, 1)
    backbone.grow([width + 1 for width in backbone.widths()])
    backbone.to(memory_format=memory_format)
    assert all_equal(run(backbone, x), first)
    assert all_equal(run(backbone, x, 1), second)


@pytest.mark.parametrize("name", ["simple_cnn", "resnet18", "mlp"])
def test_a_new_stream_uses_the_new_width_and_learns(name):
    backbone = make(name, width=4)
    wanted = [width + 2 for width in backbone.widths()]
    old = backbone.features
    backbone.grow(wanted)
    backbone.add_task()
    assert backbone.widths() == wanted
    x = torch.randn(6, 1, 8, 8)
    assert backbone.eval()(x, 0).features.shape == (6, old)
    stream = backbone.train()(x, 1)
    assert stream.features.shape == (6, old + 2)
    assert [gate.shape[1] for gate in stream.gates] == [layer.width for layer in backbone.layers.values()]
    stream.features.square().sum().backward()
    assert all(layer.weight.grad.any() for layer in backbone.layers.values())


@pytest.mark.parametrize("name", ["simple_cnn", "resnet18", "mlp"])
def test_training_a_grown_stream_with_the_lock_leaves_past_ones_alone(name):
    backbone = make(name, width=4)
    x = torch.randn(6, 1, 8, 8)
    for layer in backbone.layers.values():
        layer.lock(torch.ones(layer.width, dtype=torch.bool), 0)
    before = run(backbone, x)
    backbone.grow([width + 2 for width in backbone.widths()])
    backbone.add_task()
    optimiser = torch.optim.AdamW([p for p in backbone.parameters() if p.requires_grad], 0.1)
    for _ in range(3):
        backbone.train()(x, 1).features.square().sum().backward()
        optimiser.step()
        for layer in backbone.layers.values():
            layer.restore()
    assert all_equal(run(backbone.eval(), x), before)


def test_growth_to_a_smaller_width_changes_nothing():
    backbone = make("simple_cnn", width=4)
    backbone.grow([2, 4, 3])
    assert backbone.widths() == [4, 4, 4]


def test_layers_that_share_channels_widen_together():
    backbone = make("resnet18", width=4)
    backbone.grow([width + index for index, width in enumerate(backbone.widths())])
    for block in backbone.blocks:
        assert block.conv1.width == block.conv2.weight.shape[1] == block.norm1.channels
        assert block.conv2.width == block.norm2.channels
        if block.downsamples:
            assert block.shortcut.width == block.conv2.width == block.shortcut_norm.channels
            assert block.shortcut.weight.shape[1] == block.conv1.weight.shape[1]
        else:
            assert block.conv1.weight.shape[1] == block.conv2.width
    assert backbone.stem.width == backbone.blocks[0].conv2.width


def test_the_wanted_widths_leave_the_asked_share_of_the_first_width_free():
    backbone = make("simple_cnn", width=10)
    for layer, used in zip(backbone.layers.values(), (0, 7, 10), strict=True):
        layer.lock(torch.arange(10) < used, 0)
    assert widths_with_free(backbone.channels, 0.35, [10, 10, 10]) == [10, 11, 14]  # 4 free wanted: has 10, 3, 0


def test_the_fullest_writer_decides_how_far_a_residual_stream_widens():
    backbone = make("resnet18", width=10)
    backbone.blocks[0].conv2.lock(torch.arange(10) < 9, 0)
    wanted = widths_with_free(backbone.channels, 0.5, backbone.widths())
    group = next(i for i, g in enumerate(backbone.channels) if backbone.stem in g.writers)
    grown = [b - a for a, b in zip(backbone.widths(), wanted, strict=True)]
    assert grown == [4 if i == group else 0 for i in range(len(wanted))]
