"""Gated layers against torch's own layer times the gate; what belongs to a task stays with it."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lockgate.layers.gated import GatedConv2d, GatedLinear, apply_gate
from lockgate.layers.norm import SharedNorm, TaskNorm
from lockgate.layers.plain import PlainConv2d, PlainLinear


def identity(h: torch.Tensor) -> torch.Tensor:
    return h


def mixed_gates(layer) -> None:
    """Let the newest gates really depend on the input: some open, some shut."""
    gate = layer.gate(len(layer.gates) - 1)
    nn.init.normal_(gate.excite.weight)
    nn.init.normal_(gate.excite.bias)


def conv(c_in=3, c_out=8, *args, tasks=1, **kwargs) -> GatedConv2d:
    torch.manual_seed(0)
    layer = GatedConv2d(c_in, c_out, *args, **kwargs)
    for _ in range(tasks):
        layer.add_task()
        mixed_gates(layer)
    return layer.eval()


@settings(deadline=None, max_examples=25)
@given(
    c_in=st.integers(1, 4),
    c_out=st.integers(1, 6),
    kernel=st.sampled_from([1, 3, 5]),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    bias=st.booleans(),
    seed=st.integers(0, 999),
)
def test_a_gated_convolution_is_torchs_convolution_times_the_gate(c_in, c_out, kernel, stride, padding, bias, seed):
    layer = conv(c_in, c_out, kernel, stride=stride, padding=padding, bias=bias, init="torch")
    torch.manual_seed(seed)
    reference = nn.Conv2d(c_in, c_out, kernel, stride=stride, padding=padding, bias=bias)
    layer.load_state_dict({**layer.state_dict(), **reference.state_dict()})
    x = torch.randn(4, c_in, 7, 6)
    out, gate = layer(x, 0, F.relu)
    assert set(gate.unique().tolist()) <= {0.0, 1.0}
    assert torch.equal(gate, layer.gate(0)(x))
    assert torch.allclose(out, F.relu(reference(x)) * gate[:, :, None, None], atol=1e-6)
    with torch.no_grad():
        assert torch.equal(layer(x, 0, F.relu)[0], out)


@pytest.mark.parametrize("bias", [True, False])
def test_a_gated_linear_layer_is_torchs_linear_layer_times_the_gate(bias):
    torch.manual_seed(0)
    layer = GatedLinear(5, 9, bias=bias)
    layer.add_task()
    mixed_gates(layer)
    reference = nn.Linear(5, 9, bias=bias)
    layer.load_state_dict({**layer.state_dict(), **reference.state_dict()})
    x = torch.randn(12, 5)
    out, gate = layer.eval()(x, 0, torch.tanh)
    assert 0 < gate.mean() < 1
    assert torch.allclose(out, torch.tanh(reference(x)) * gate)


@pytest.mark.parametrize(("ours", "torchs"), [(GatedConv2d, nn.Conv2d), (GatedLinear, nn.Linear)])
def test_a_gated_layer_has_the_arguments_and_defaults_of_the_layer_it_replaces(ours, torchs):
    mine, theirs = inspect.signature(ours).parameters, inspect.signature(torchs).parameters
    shared = [name for name in mine if name in theirs]
    assert set(mine) - set(theirs) == {"init", "open_bias"}
    assert [mine[name].default for name in shared] == [theirs[name].default for name in shared]
    assert shared[:2] == list(theirs)[:2]


@pytest.mark.parametrize("init", ["he", "torch"])
def test_plain_layers_are_torchs_own_with_nothing_gated(init):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, 6)
    layer = PlainConv2d(3, 5, 3, padding=1, init=init)
    out, gate = layer(x, 0, torch.tanh)
    assert gate is None
    assert torch.equal(out, torch.tanh(F.conv2d(x, layer.weight, layer.bias, padding=1)))
    flat = PlainLinear(12, 4, init=init)
    assert torch.equal(
        flat(x[:, 0, :2].flatten(1), 0, identity)[0], F.linear(x[:, 0, :2].flatten(1), *flat.parameters())
    )


@pytest.mark.parametrize("task", [0, 1])
def test_each_task_uses_its_own_gate(task):
    layer = conv(3, 16, 3, tasks=2)
    x = torch.randn(6, 3, 5, 5)
    assert torch.equal(layer(x, task, identity)[1], layer.gate(task)(x))
    assert not torch.equal(layer.gate(0)(x), layer.gate(1)(x))


def test_shut_channels_are_positive_zero_without_gradients():
    layer = conv(3, 16, 3)
    with torch.no_grad():
        layer.weight.abs_().neg_()  # every output is negative: a product with 0 would be -0.0
        x = torch.rand(6, 3, 5, 5) + 0.1
        out, gate = layer(x, 0, identity)
    shut = out[gate == 0]
    assert len(shut) > 0
    assert not shut.any()
    assert not torch.signbit(shut).any()
    assert torch.signbit((layer.linear_map(x, layer.weight, layer.bias) * gate[:, :, None, None])[gate == 0]).any()


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_what_a_shut_filter_computes_never_gets_out_without_gradients(value):
    with torch.no_grad():
        out = apply_gate(torch.full((1, 2, 3, 3), value), torch.tensor([[0.0, 0.0]]))
    assert torch.equal(out, torch.zeros(1, 2, 3, 3))


def test_the_gradient_reaches_open_filters_and_gates_and_no_shut_filter():
    layer = conv(3, 16, 3)
    gate_of = layer.gate(0)
    with torch.no_grad():
        gate_of.excite.bias[:8] = -100.0
        gate_of.excite.bias[8:] = 100.0
        gate_of.excite.weight.zero_()
    layer(torch.randn(6, 3, 5, 5), 0, identity)[0].square().sum().backward()
    assert not layer.weight.grad[:8].any()
    assert all(row.any() for row in layer.weight.grad[8:])


def test_the_gate_sees_the_straight_through_gradient():
    layer = conv(3, 6, 3)
    x = torch.randn(4, 3, 5, 5)
    out, _ = layer(x, 0, identity)
    out.sum().backward()
    z = layer.gate(0).logits(x)
    soft = torch.sigmoid(1.5 * z)
    upstream = layer.linear_map(x, layer.weight, layer.bias).sum((2, 3))
    assert torch.allclose(layer.gate(0).excite.bias.grad, (upstream * soft * (1 - soft) * 1.5).sum(0), atol=1e-4)


def test_a_sealed_layer_keeps_past_gates_inside_the_relevant_set():
    layer = conv(3, 16, 3, tasks=2)
    x = torch.randn(20, 3, 5, 5)
    before, other = layer.gate(0)(x), layer.gate(1)(x)
    relevant = torch.arange(16) % 3 == 0
    layer.seal(relevant, 0)
    assert torch.equal(layer.gate(0)(x), before * relevant)
    assert torch.equal(layer.gate(1)(x), other)
    assert not torch.equal(layer.gate(0)(x), before)


def test_a_seal_once_shut_never_opens_again():
    layer = conv(3, 16, 3)
    layer.seal(torch.arange(16) < 8, 0)
    layer.seal(torch.arange(16) >= 4, 0)
    assert layer.gate(0).seal.tolist() == [4 <= k < 8 for k in range(16)]


def test_only_the_newest_tasks_gate_learns():
    layer = conv(3, 4, 3, tasks=3).train()
    assert [p.requires_grad for p in layer.gate(0).parameters()] == [False] * 6
    assert [p.requires_grad for p in layer.gate(1).parameters()] == [False] * 6
    assert all(p.requires_grad for p in layer.gate(2).parameters())
    assert [gate.training for gate in layer.gates] == [False, False, True]


def test_training_a_task_moves_no_norm_of_another():
    norm = TaskNorm(4)
    x = torch.randn(8, 4, 3, 3)
    norm.add_task()
    norm.train()(x * 3 + 1, 0)
    past = {name: value.clone() for name, value in norm.norms[0].state_dict().items()}
    answer = norm.eval()(x, 0)
    norm.add_task()
    norm.train()
    norm(x * 7 - 5, 1).square().sum().backward()
    norm(x, 0)  # a past stream run while the new one trains
    assert all(torch.equal(value, past[name]) for name, value in norm.norms[0].state_dict().items())
    assert torch.equal(norm(x, 0), answer)
    assert all(p.grad is None for p in norm.norms[0].parameters())
    assert not torch.equal(norm.norms[1].running_mean, torch.zeros(4))


def test_a_task_norm_is_torchs_batch_norm():
    torch.manual_seed(0)
    norm, reference = TaskNorm(4), nn.BatchNorm2d(4)
    norm.add_task()
    x = torch.randn(8, 4, 3, 3)
    assert torch.equal(norm.train()(x, 0), reference.train()(x))
    assert torch.equal(norm.eval()(x, 0), reference.eval()(x))


def test_a_shared_norm_is_one_for_all_tasks():
    norm = SharedNorm(4)
    norm.add_task()
    x = torch.randn(8, 4, 3, 3)
    norm.train()(x, 0)
    assert torch.equal(norm.eval()(x, 0), norm(x, 5))
    assert len(norm.state_dict()) == 5
