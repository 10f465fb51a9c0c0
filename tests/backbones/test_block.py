"""The gated residual block (paper, Figure 3), by forcing its gates."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockgate.backbones.resnet import BasicBlock
from lockgate.methods.ccgn.method import CCGN, CCGNOptions


def make_block(stride: int) -> BasicBlock:
    """A block with norms that are not the identity, in eval mode."""
    torch.manual_seed(0)
    block = BasicBlock(4, 4 * stride, stride, CCGN.layer_factory("torch", CCGNOptions()))
    for module in list(block.modules()):
        if hasattr(module, "add_task"):
            module.add_task()
    for module in block.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return block.eval()


def force(layer, pattern: torch.Tensor) -> None:
    """Open exactly the channels of ``pattern``, whatever the input."""
    with torch.no_grad():
        layer.gate(0).excite.weight.zero_()
        layer.gate(0).excite.bias.copy_(torch.where(pattern, 100.0, -100.0))


def norm(h: torch.Tensor, part) -> torch.Tensor:
    n = part.norms[0]
    shape = (1, -1, 1, 1)
    scale = n.weight / torch.sqrt(n.running_var + n.eps)
    return (h - n.running_mean.view(shape)) * scale.view(shape) + n.bias.view(shape)


def drawn(block: BasicBlock, x: torch.Tensor, gate1, gate2, gate_s) -> torch.Tensor:
    """The figure, line by line."""
    stride = block.conv1.stride
    h = F.relu(norm(F.conv2d(x, block.conv1.weight, stride=stride, padding=1), block.norm1))
    h = h * gate1.view(1, -1, 1, 1)
    h = norm(F.conv2d(h, block.conv2.weight, padding=1), block.norm2)
    shortcut = x
    if block.downsamples:
        shortcut = norm(F.conv2d(x, block.shortcut.weight, stride=stride), block.shortcut_norm)
        shortcut = shortcut * gate_s.view(1, -1, 1, 1)
    return F.relu(h + shortcut) * gate2.view(1, -1, 1, 1)


OPEN, SHUT, MIXED = 1.0, 0.0, 0.5


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    "shares", [(OPEN, OPEN, OPEN), (SHUT, OPEN, OPEN), (OPEN, SHUT, OPEN), (OPEN, OPEN, SHUT), (MIXED, MIXED, MIXED)]
)
def test_a_gated_block_is_the_papers_figure(stride, shares):
    block = make_block(stride)
    patterns = [torch.rand(4 * stride) < share for share in shares]
    layers = [block.conv1, block.conv2] + ([block.shortcut] if stride == 2 else [])
    for layer, pattern in zip(layers, patterns, strict=False):
        force(layer, pattern)
    x = torch.randn(3, 4, 8, 8)
    out, _ = block(x, 0)
    assert torch.allclose(out, drawn(block, x, *(p.float() for p in patterns)), atol=1e-5)


@pytest.mark.parametrize("stride", [1, 2])
def test_working_in_place_leaves_the_gradients_right(stride):
    block = make_block(stride)
    layers = [block.conv1, block.conv2] + ([block.shortcut] if stride == 2 else [])
    patterns = [torch.rand(4 * stride) < MIXED for _ in range(3)]
    for layer, pattern in zip(layers, patterns, strict=False):
        force(layer, pattern)
    x = torch.randn(3, 4, 8, 8, requires_grad=True)
    wanted_of = [x, *(layer.weight for layer in layers)]
    weigh = torch.randn(3, 4 * stride, 8 // stride, 8 // stride)
    found = torch.autograd.grad((block(x, 0)[0] * weigh).sum(), wanted_of)
    wanted = torch.autograd.grad((drawn(block, x, *(p.float() for p in patterns)) * weigh).sum(), wanted_of)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_the_second_gate_shuts_the_shortcut_too():
    block = make_block(1)
    force(block.conv2, torch.zeros(4, dtype=torch.bool))
    out, _ = block(torch.rand(2, 4, 8, 8) + 10, 0)
    assert not out.any()


def test_the_first_gate_leaves_the_shortcut_alone():
    block = make_block(1)
    force(block.conv1, torch.zeros(4, dtype=torch.bool))
    force(block.conv2, torch.ones(4, dtype=torch.bool))
    x = torch.rand(2, 4, 8, 8) + 10
    constant = norm(torch.zeros(1, 4, 1, 1), block.norm2)
    assert torch.allclose(block(x, 0)[0], F.relu(x + constant), atol=1e-5)


@pytest.mark.parametrize(("stride", "gates"), [(1, 2), (2, 3)])
def test_the_shortcut_is_gated_only_where_it_downsamples(stride, gates):
    block = make_block(stride)
    assert len(block(torch.randn(2, 4, 8, 8), 0)[1]) == gates
    assert hasattr(block, "shortcut") == (stride == 2)


def test_each_gate_looks_at_the_input_of_its_own_convolution():
    block = make_block(2)
    x = torch.randn(2, 4, 8, 8)
    seen = []
    for layer in (block.conv1, block.shortcut, block.conv2):
        nn.init.normal_(layer.gate(0).excite.weight)
        layer.gate(0).register_forward_hook(lambda _, args, __: seen.append(args[0]))
    _, gates = block(x, 0)
    h = F.relu(norm(F.conv2d(x, block.conv1.weight, stride=2, padding=1), block.norm1)) * gates[0][:, :, None, None]
    assert torch.equal(seen[0], x)
    assert torch.equal(seen[1], x[:, :, ::2, ::2])  # all that a 1x1 convolution of stride 2 reads
    assert torch.allclose(seen[2], h, atol=1e-5)
