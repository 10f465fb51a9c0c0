"""The gating module against a re-implementation from its weights, in every mode it is used in."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockgate.layers.gate import ChannelGate, GateNorm


def gate_with_statistics(c_in: int = 6, c_out: int = 40, seed: int = 0, bias: float = 0.0) -> ChannelGate:
    """A gate with weights and statistics that differ from their defaults, in eval mode."""
    torch.manual_seed(seed)
    gate = ChannelGate(c_in, c_out, open_bias=bias)
    nn.init.normal_(gate.norm.weight)
    nn.init.normal_(gate.norm.bias)
    gate.norm.running_mean.normal_()
    gate.norm.running_var.uniform_(0.5, 2)
    return gate.eval()


def by_loops(gate: ChannelGate, image: torch.Tensor) -> list[float]:
    """The logits of one (c_in, H, W) image, in plain Python."""
    pooled = [sum(channel.flatten().tolist()) / channel.numel() for channel in image]
    hidden = []
    for j, row in enumerate(gate.squeeze.weight.tolist()):
        h = sum(w * p for w, p in zip(row, pooled, strict=True)) + gate.squeeze.bias[j].item()
        h = (h - float(gate.norm.running_mean[j])) / math.sqrt(float(gate.norm.running_var[j]) + gate.norm.eps)
        hidden.append(max(0.0, h * gate.norm.weight[j].item() + gate.norm.bias[j].item()))
    return [
        sum(w * h for w, h in zip(row, hidden, strict=True)) + float(b)
        for row, b in zip(gate.excite.weight.tolist(), gate.excite.bias.tolist(), strict=True)
    ]


def test_the_gate_is_pool_linear_norm_relu_linear_threshold():
    gate = gate_with_statistics()
    x = torch.randn(5, 6, 4, 3)
    truth = torch.tensor([by_loops(gate, image) for image in x])
    assert truth.abs().min() > 1e-4  # no decision hangs on rounding
    assert torch.allclose(gate.logits(x), truth, atol=1e-5)
    assert torch.equal(gate(x), (truth > 0).float())


def test_a_flat_input_is_gated_like_an_image_of_one_pixel():
    gate = gate_with_statistics()
    x = torch.randn(5, 6)
    assert torch.equal(gate(x), gate(x[:, :, None, None]))


def test_the_hidden_layer_has_the_papers_sixteen_units():
    assert ChannelGate(3, 7).squeeze.out_features == 16


def test_training_normalises_by_the_batch_and_moves_the_statistics():
    gate = gate_with_statistics().train()
    x = torch.randn(9, 6, 2, 2)
    hidden = gate.squeeze(x.mean((2, 3)))
    mean, var = hidden.mean(0), hidden.var(0, unbiased=False)
    wanted_mean = 0.9 * gate.norm.running_mean + 0.1 * mean
    normal = (hidden - mean) / torch.sqrt(var + gate.norm.eps) * gate.norm.weight + gate.norm.bias
    assert torch.allclose(gate.logits(x), gate.excite(F.relu(normal)), atol=1e-5)
    assert torch.allclose(gate.norm.running_mean, wanted_mean, atol=1e-6)


def test_a_batch_of_one_trains_by_the_running_statistics_and_leaves_them():
    gate = gate_with_statistics()
    x = torch.randn(1, 6, 4, 4)
    wanted = gate.logits(x)
    before = {name: value.clone() for name, value in gate.norm.named_buffers()}
    gate.train()
    logits = gate.logits(x)
    logits.sum().backward()
    assert torch.allclose(logits, wanted)
    assert all(torch.equal(value, before[name]) for name, value in gate.norm.named_buffers())
    assert gate.squeeze.weight.grad.abs().sum() > 0


def test_a_batch_of_one_is_what_torchs_own_norm_refuses():
    x = torch.randn(1, 16)
    with pytest.raises(ValueError, match="more than 1 value"):
        nn.BatchNorm1d(16).train()(x)
    assert GateNorm(16).train()(x).shape == (1, 16)


def test_gates_start_open():
    torch.manual_seed(0)
    x = torch.randn(64, 20, 5, 5)
    assert ChannelGate(20, 100).eval()(x).mean() > 0.95
    assert ChannelGate(20, 100, open_bias=0.0).eval()(x).mean() < 0.8  # so it is the bias that opens them


def test_noise_is_added_only_while_training():
    gate = gate_with_statistics()
    x = torch.randn(8, 6, 3, 3)
    assert torch.equal(gate(x), gate(x))
    gate.train()
    torch.manual_seed(0)
    assert not torch.equal(gate(x), gate(x))


def test_the_decision_under_bf16_autocast_is_that_of_fp32():
    gate = gate_with_statistics(c_in=64, c_out=200)
    x = torch.randn(64, 64, 4, 4)
    fp32 = gate(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits, low = gate.logits(x), gate(x)
        reduced = gate.excite(F.relu(gate.norm(gate.squeeze(x.mean((2, 3))))))
    assert logits.dtype == torch.float32
    assert torch.equal(low, fp32)
    assert not torch.equal((reduced > 0).float(), fp32)  # what would have happened without care


def test_a_bf16_input_is_decided_upon_in_fp32():
    gate = gate_with_statistics()
    x = torch.randn(16, 6, 4, 4).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(gate(x), gate(x.float()))


def test_a_seal_shuts_gates_in_every_mode_and_opens_none():
    gate = gate_with_statistics(bias=1.0)
    x = torch.randn(32, 6, 3, 3)
    unsealed = gate(x)
    gate.seal[::2] = False
    assert torch.equal(gate(x), unsealed * gate.seal)
    assert unsealed[:, ::2].any()
    gate.train()
    assert not gate(x)[:, ::2].any()


def test_a_seal_is_part_of_the_saved_state():
    gate = gate_with_statistics()
    gate.seal[3] = False
    other = gate_with_statistics(seed=1)
    other.load_state_dict(gate.state_dict())
    assert other.seal.tolist() == gate.seal.tolist()


def test_a_sealed_gate_gets_no_gradient():
    gate = gate_with_statistics(bias=1.0)
    gate.seal[:20] = False
    gate(torch.randn(8, 6, 3, 3)).sum().backward()
    assert not gate.excite.weight.grad[:20].any()
    assert gate.excite.weight.grad[20:].any()
