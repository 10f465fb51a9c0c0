"""Masked layers against torch's own layer times the mask; frozen weights keep their bits under every optimiser."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from lockgate.layers.hat import MaskedConv2d, MaskedLinear

OPTIMISERS = {
    "momentum": lambda p, lr, wd: torch.optim.SGD(p, lr, momentum=0.9, weight_decay=wd),
    "nesterov": lambda p, lr, wd: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True, weight_decay=wd),
    "adamw": lambda p, lr, wd: torch.optim.AdamW(p, lr, weight_decay=wd),
}


def make_layer(kind="conv", bias=True, seed=0):
    torch.manual_seed(seed)
    layer = MaskedConv2d(3, 6, 3, padding=1, bias=bias) if kind == "conv" else MaskedLinear(3, 6, bias)
    layer.add_task()
    if bias:
        nn.init.normal_(layer.bias)
    return layer


def images(layer):
    return torch.randn((4, 3, 5, 5) if layer.weight.dim() == 4 else (4, 3))


def one_step(layer, optimiser, clip=None, restore=True):
    """The engine's order: backward, hold, clip, compensate, step, restore and bound."""
    out, _ = layer(images(layer), 0, lambda h: h)
    optimiser.zero_grad()
    (out * torch.randn(out.shape)).sum().backward()
    layer.hold_gradients()
    if clip is not None:
        nn.utils.clip_grad_norm_(layer.parameters(), clip)
    layer.compensate(400.0)
    optimiser.step()
    if restore:
        layer.restore()
        layer.bound()


def test_the_mask_is_a_sigmoid_while_training_and_binary_otherwise():
    layer = make_layer()
    e = [-2.0, -0.01, 0.0, 0.01, 0.5, 6.0]
    layer.embeddings[0].data = torch.tensor(e)
    layer.scale = 3.0
    assert layer.train().mask(0).tolist() == pytest.approx([1 / (1 + math.exp(-3 * v)) for v in e], rel=1e-6)
    assert layer.eval().mask(0).tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("kind", ["conv", "linear"])
@pytest.mark.parametrize("training", [True, False])
def test_the_output_is_torchs_own_times_the_mask(kind, training):
    layer = make_layer(kind).train(training)
    layer.scale = 2.0
    x = images(layer)
    out, gate = layer(x, 0, F.relu)
    weight, bias = layer.weight, layer.bias
    plain = F.conv2d(x, weight, bias, padding=1) if kind == "conv" else F.linear(x, weight, bias)
    for k, e in enumerate(layer.embeddings[0].tolist()):
        mask = 1 / (1 + math.exp(-2 * e)) if training else float(e > 0)
        assert torch.allclose(out[:, k], F.relu(plain[:, k]) * mask, atol=1e-6)
        assert gate[:, k].tolist() == pytest.approx([mask] * 4)
    assert gate.shape == (4, 6)


def test_masked_units_are_plus_zero_whatever_they_compute():
    layer = make_layer("linear").eval()
    layer.embeddings[0].data.fill_(-1.0)
    layer.bias.data.copy_(torch.tensor([-5.0, -1e30, 5.0, -0.0, math.inf, math.nan]))
    with torch.no_grad():
        out, _ = layer(torch.zeros(2, 3), 0, lambda h: h)
    assert torch.equal(out, torch.zeros(2, 6))
    assert not torch.signbit(out).any()


def test_each_task_has_its_own_mask_and_earlier_ones_stop_learning():
    layer = make_layer()
    first = layer.embeddings[0].detach().clone()
    layer.add_task()
    assert [e.requires_grad for e in layer.embeddings] == [False, True]
    assert torch.equal(layer.embeddings[0], first)
    assert not torch.equal(layer.embeddings[1], first)
    x = images(layer)
    layer.eval()
    assert not torch.equal(layer(x, 0, F.relu)[1], layer(x, 1, F.relu)[1])


@pytest.mark.parametrize("scale", [1 / 400, 1.0, 37.0, 400.0])
def test_the_embeddings_gradient_is_compensated_by_hand(scale):
    layer = make_layer()
    e = [-6.0, -0.3, -0.01, 0.0, 0.02, 5.0]
    q = [1e-3, -2.0, 0.5, 1.0, -1.0, 1e-4]
    layer.embeddings[0].data = torch.tensor(e)
    layer.embeddings[0].grad = torch.tensor(q)
    layer.scale = scale
    layer.compensate(400.0)
    truth = []
    for value, gradient in zip(e, q, strict=True):
        exponent = max(-50.0, min(50.0, scale * value))
        truth.append(gradient * 400 / scale * (math.cosh(exponent) + 1) / (math.cosh(value) + 1))
    assert layer.embeddings[0].grad.tolist() == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("scale", [0.01, 1.0, 2.0])
def test_the_compensated_gradient_is_that_of_a_plain_sigmoid_times_s_max(scale):
    """d sigmoid(s e) / de has the slope of s; what is left after compensation is s_max d sigmoid(e) / de."""
    layer = make_layer()
    layer.embeddings[0].data = torch.linspace(-3, 3, 6)
    layer.scale = scale
    wanted = torch.randn(6)  # d loss / d mask
    (layer.mask(0) * wanted).sum().backward()
    layer.compensate(400.0)
    soft = torch.sigmoid(torch.linspace(-3, 3, 6))
    assert torch.allclose(layer.embeddings[0].grad, 400 * soft * (1 - soft) * wanted, rtol=1e-3)


def test_embeddings_stay_within_six():
    layer = make_layer()
    layer.embeddings[0].data = torch.tensor([-7.0, -6.0, -1.0, 2.0, 6.5, 600.0])
    layer.bound()
    assert layer.embeddings[0].tolist() == [-6, -6, -1, 2, 6, 6]


@pytest.mark.parametrize("kind", ["conv", "linear"])
def test_a_weight_gets_no_gradient_where_both_its_ends_are_used(kind):
    layer = make_layer(kind)
    used, inputs = [True, False, True, False, False, True], [True, False, True]
    layer.freeze(torch.tensor(used), torch.tensor(inputs))
    layer.weight.grad, layer.bias.grad = torch.ones_like(layer.weight), torch.ones_like(layer.bias)
    layer.hold_gradients()
    for i in range(6):
        for j in range(3):
            assert (layer.weight.grad[i, j] == (0.0 if used[i] and inputs[j] else 1.0)).all()
        assert layer.bias.grad[i] == (0.0 if used[i] else 1.0)


@settings(deadline=None, max_examples=40)
@given(
    name=st.sampled_from(sorted(OPTIMISERS)),
    lr=st.floats(1e-3, 1.0),
    decay=st.sampled_from([0.0, 0.1]),
    clip=st.sampled_from([None, 0.1, 10.0]),
    used=st.lists(st.booleans(), min_size=6, max_size=6),
    inputs=st.lists(st.booleans(), min_size=3, max_size=3),
    kind=st.sampled_from(["conv", "linear"]),
    bias=st.booleans(),
    reload=st.booleans(),
    seed=st.integers(0, 999),
)
@example("momentum", 1.0, 0.0, 0.1, [False] * 5 + [True], [False, False, True], "linear", False, False, 391)
def test_frozen_weights_keep_every_bit_and_free_ones_learn(
    name, lr, decay, clip, used, inputs, kind, bias, reload, seed
):
    layer = make_layer(kind, bias, seed)
    layer.embeddings[0].data.clamp_(-2, 2)
    optimiser = OPTIMISERS[name]([p for n, p in layer.named_parameters() if "embeddings" not in n], lr, decay)
    one_step(layer, optimiser, clip)  # momentum that would push the weights on
    layer.freeze(torch.tensor(used), torch.tensor(inputs))
    if reload:
        layer.load_state_dict({key: value.clone() for key, value in layer.state_dict().items()})
    if kind == "conv":
        layer.to(memory_format=torch.channels_last)
    weight = layer.weight.detach().clone()
    biases = layer.bias.detach().clone() if bias else None
    for _ in range(3):
        one_step(layer, optimiser, clip)
    for i in range(6):
        for j in range(3):
            assert torch.equal(layer.weight[i, j], weight[i, j]) == (used[i] and inputs[j]), (i, j)
        if bias:
            assert torch.equal(layer.bias[i], biases[i]) == used[i]


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_without_the_restore_momentum_and_decay_move_frozen_weights(name):
    layer = make_layer()
    optimiser = OPTIMISERS[name](layer.parameters(), 0.1, 0.1)
    one_step(layer, optimiser)
    layer.freeze(torch.ones(6, dtype=torch.bool), torch.ones(3, dtype=torch.bool))
    before = layer.weight.detach().clone()
    one_step(layer, optimiser, restore=False)
    assert not torch.equal(layer.weight, before)


def test_what_is_used_adds_up_over_tasks_and_is_in_the_state():
    layer = make_layer("linear")
    layer.freeze(torch.tensor([True, False, False, False, False, False]), torch.tensor([True, False, False]))
    layer.freeze(torch.tensor([False, True, False, False, False, False]), torch.tensor([False, False, True]))
    other = make_layer("linear", seed=1)
    other.load_state_dict(layer.state_dict())
    before = other.weight.detach().clone()
    other.weight.data += 1
    other.restore()
    moved = (other.weight != before).tolist()
    assert moved == [[not (i < 2 and j != 1) for j in range(3)] for i in range(6)]
