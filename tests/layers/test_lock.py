"""Locked filters keep their bits under every optimiser; free ones learn."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from lockgate.layers.gated import GatedConv2d, GatedLinear
from lockgate.layers.lock import FREE

OPTIMISERS = {
    "sgd": lambda p, lr, wd: torch.optim.SGD(p, lr, weight_decay=wd),
    "momentum": lambda p, lr, wd: torch.optim.SGD(p, lr, momentum=0.9, weight_decay=wd),
    "nesterov": lambda p, lr, wd: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True, weight_decay=wd),
    "adamw": lambda p, lr, wd: torch.optim.AdamW(p, lr, weight_decay=wd),
    "amsgrad": lambda p, lr, wd: torch.optim.Adam(p, lr, amsgrad=True, weight_decay=wd),
    "rmsprop": lambda p, lr, wd: torch.optim.RMSprop(p, lr, momentum=0.9, weight_decay=wd),
}


def make_layer(kind: str = "conv", bias: bool = True, seed: int = 0):
    torch.manual_seed(seed)
    layer = GatedConv2d(3, 8, 3, bias=bias, open_bias=20.0) if kind == "conv" else GatedLinear(5, 8, bias, "he", 20.0)
    layer.add_task()
    if bias:
        nn.init.normal_(layer.bias)
    return layer


def one_step(layer, optimiser, clip: float | None = None, hold: bool = True, restore: bool = True) -> None:
    """The engine's order: backward, hold, clip, step, restore."""
    shape = (4, 3, 5, 5) if layer.weight.dim() == 4 else (4, 5)
    out, _ = layer(torch.randn(shape), 0, lambda h: h)
    optimiser.zero_grad()
    (out * torch.randn(out.shape)).sum().backward()
    if hold:
        layer.hold_gradients()
    if clip is not None:
        nn.utils.clip_grad_norm_(layer.parameters(), clip)
    optimiser.step()
    if restore:
        layer.restore()


@settings(deadline=None, max_examples=40)
@given(
    name=st.sampled_from(sorted(OPTIMISERS)),
    lr=st.floats(1e-3, 1.0),
    decay=st.sampled_from([0.0, 1e-4, 0.1]),
    clip=st.sampled_from([None, 0.1, 10.0]),
    locked=st.lists(st.booleans(), min_size=8, max_size=8),
    kind=st.sampled_from(["conv", "linear"]),
    bias=st.booleans(),
    seed=st.integers(0, 999),
)
@example("sgd", 0.001, 1e-4, 0.1, [False] * 7 + [True], "conv", True, 775)  # a step that rounding would lose
def test_locked_filters_keep_every_bit_and_free_ones_learn(name, lr, decay, clip, locked, kind, bias, seed):
    layer = make_layer(kind, bias, seed)
    optimiser = OPTIMISERS[name](layer.parameters(), lr, decay)
    one_step(layer, optimiser, clip)  # momentum that would push the filters on
    if bias:
        with torch.no_grad():
            layer.bias[~torch.tensor(locked)] = 0  # else a small step to one number may be lost in rounding
    layer.lock(torch.tensor(locked), 0)
    before = {key: value.detach().clone() for key, value in layer.named_parameters()}
    for _ in range(3):
        one_step(layer, optimiser, clip)
    for key in ("weight", "bias") if bias else ("weight",):
        for k, now in enumerate(getattr(layer, key).detach()):
            assert torch.equal(now, before[key][k]) == locked[k], (key, k)


@pytest.mark.parametrize(
    ("name", "decay"),
    [
        ("momentum", 0.0),
        ("nesterov", 0.0),
        ("sgd", 0.1),
        ("adamw", 0.0),
        ("adamw", 0.1),
        ("amsgrad", 0.0),
        ("rmsprop", 0.0),
    ],
)
def test_zeroed_gradients_alone_do_move_locked_filters(name, decay):
    layer = make_layer()
    optimiser = OPTIMISERS[name](layer.parameters(), 0.01, decay)
    one_step(layer, optimiser)
    layer.lock(torch.ones(8, dtype=torch.bool), 0)
    before = layer.weight.detach().clone()
    one_step(layer, optimiser, restore=False)
    assert not torch.equal(layer.weight, before)


def test_restoring_needs_no_held_gradients():
    layer = make_layer()
    optimiser = OPTIMISERS["momentum"](layer.parameters(), 0.1, 0.1)
    layer.lock(torch.arange(8) < 4, 0)
    before = layer.weight.detach().clone()
    one_step(layer, optimiser, hold=False)
    assert torch.equal(layer.weight[:4], before[:4])
    assert not torch.equal(layer.weight[4:], before[4:])


def test_a_gradient_that_is_not_a_number_does_not_reach_locked_filters():
    layer = make_layer()
    layer.lock(torch.arange(8) < 4, 0)
    before = layer.weight.detach().clone()
    layer.weight.grad = torch.full_like(layer.weight, math.nan)
    layer.hold_gradients()
    assert not layer.weight.grad[:4].any()
    torch.optim.SGD([layer.weight], 0.1).step()
    layer.restore()
    assert torch.equal(layer.weight[:4], before[:4])


@pytest.mark.parametrize("bias", [True, False])
def test_locked_filters_do_not_eat_the_clipping_norm(bias):
    layer = make_layer(bias=bias)
    layer.lock(torch.arange(8) % 2 == 0, 0)
    out, _ = layer(torch.randn(4, 3, 5, 5), 0, lambda h: h)
    (out * 100).sum().backward()
    filters = [layer.weight, layer.bias] if bias else [layer.weight]
    squares = sum(float(g) ** 2 for p in filters for k in range(1, 8, 2) for g in p.grad[k].flatten())
    everything = float(nn.utils.get_total_norm([p.grad for p in filters]))
    layer.hold_gradients()
    norm = float(nn.utils.clip_grad_norm_(filters, 1.0))
    assert norm == pytest.approx(math.sqrt(squares), rel=1e-5)
    assert norm < 0.9 * everything


def test_holding_gradients_leaves_those_of_free_filters():
    layer = make_layer()
    layer.lock(torch.arange(8) < 3, 0)
    layer.weight.grad = torch.randn_like(layer.weight)
    before = layer.weight.grad.clone()
    layer.hold_gradients()  # the bias has no gradient yet, which must not matter
    assert torch.equal(layer.weight.grad[3:], before[3:])


@pytest.mark.parametrize("init", ["he", "torch"])
def test_only_free_filters_are_initialised_anew(init):
    torch.manual_seed(0)
    layer = GatedConv2d(3, 8, 3, init=init)
    nn.init.normal_(layer.bias)
    locked = torch.arange(8) % 3 == 0
    layer.lock(locked, 0)
    weight, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    layer.reinitialise_free()
    for k in range(8):
        assert torch.equal(layer.weight[k], weight[k]) == bool(locked[k])
        assert torch.equal(layer.bias[k], bias[k]) == bool(locked[k])


@pytest.mark.parametrize("fan_in", [4, 25])
def test_free_filters_start_again_from_the_layers_own_distribution(fan_in):
    torch.manual_seed(0)
    he, plain = GatedLinear(fan_in, 4000, init="he"), GatedLinear(fan_in, 4000, init="torch")
    for layer in (he, plain):
        layer.weight.data.fill_(7.0)
        layer.bias.data.fill_(7.0)
        layer.reinitialise_free()
    assert he.weight.std().item() == pytest.approx(math.sqrt(2 / fan_in), rel=0.03)
    assert not he.bias.any()
    bound = 1 / math.sqrt(fan_in)  # of nn.Linear, for weight and bias alike
    for parameter in (plain.weight, plain.bias):
        assert 0.98 * bound < parameter.abs().max().item() <= bound
        assert parameter.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_reinitialisation_draws_from_the_current_generator():
    def draw(seed: int) -> torch.Tensor:
        layer = make_layer()
        torch.manual_seed(seed)
        layer.reinitialise_free()
        return layer.weight.detach()

    assert torch.equal(draw(3), draw(3))
    assert not torch.equal(draw(3), draw(4))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(st.booleans(), min_size=8, max_size=8), min_size=1, max_size=4))
def test_a_filter_belongs_to_the_first_task_that_locks_it(claims):
    layer = make_layer()
    owner = [FREE] * 8
    for task, claim in enumerate(claims):
        layer.lock(torch.tensor(claim), task)
        owner = [task if claimed and now == FREE else now for claimed, now in zip(claim, owner, strict=True)]
    assert layer.owner.tolist() == owner
    assert layer.locked.tolist() == [o != FREE for o in owner]
    for task in range(len(claims)):
        mine = [k for k in range(8) if owner[k] == task]
        assert torch.equal(layer.locked_by(task)["weight"], layer.weight[mine])
        assert torch.equal(layer.locked_by(task)["bias"], layer.bias[mine])


def test_a_layer_without_bias_locks_its_weight_only():
    layer = make_layer(bias=False)
    layer.lock(torch.arange(8) < 2, 0)
    assert list(layer.locked_by(0)) == ["weight"]


def test_loaded_locked_filters_are_what_restore_puts_back():
    saved = make_layer(seed=1)
    saved.lock(torch.arange(8) < 5, 2)
    layer = make_layer(seed=2)
    layer.lock(torch.arange(8) > 1, 0)
    layer.load_state_dict(saved.state_dict())
    with torch.no_grad():
        layer.weight.add_(1.0)
        layer.bias.add_(1.0)
    layer.restore()
    assert layer.owner.tolist() == [2] * 5 + [FREE] * 3
    assert torch.equal(layer.weight[:5], saved.weight[:5])
    assert torch.equal(layer.bias[:5], saved.bias[:5])
    assert torch.equal(layer.weight[5:], saved.weight[5:] + 1.0)


def test_loading_into_a_whole_network_reaches_every_layer():
    saved, net = (nn.Sequential(make_layer(seed=s), make_layer(seed=s + 1)) for s in (0, 10))
    saved[1].lock(torch.arange(8) < 5, 0)
    net.load_state_dict(saved.state_dict())
    with torch.no_grad():
        net[1].weight.zero_()
    net[1].restore()
    assert torch.equal(net[1].weight[:5], saved[1].weight[:5])


@pytest.mark.parametrize("kind", ["conv", "linear"])
@pytest.mark.parametrize("bias", [True, False])
def test_new_filters_are_free_and_old_ones_keep_their_bits(kind, bias):
    layer = make_layer(kind, bias)
    layer.lock(torch.arange(8) < 3, 0)
    before = {key: value.detach().clone() for key, value in layer.named_parameters()}
    layer.grow_outputs(5)
    assert layer.width == 13
    assert torch.equal(layer.weight[:8], before["weight"])
    assert layer.weight[8:].flatten(1).any(1).all()
    assert layer.owner.tolist() == [0] * 3 + [FREE] * 10
    if bias:
        assert torch.equal(layer.bias[:8], before["bias"])
        assert len(layer.bias) == 13


@pytest.mark.parametrize("kind", ["conv", "linear"])
def test_new_inputs_are_zero_on_locked_filters_and_fresh_on_free_ones(kind):
    layer = make_layer(kind)
    layer.lock(torch.arange(8) < 3, 0)
    before = layer.weight.detach().clone()
    c_in = layer.weight.shape[1]
    layer.grow_inputs(4)
    assert layer.weight.shape[1] == c_in + 4
    assert torch.equal(layer.weight[:, :c_in], before)
    assert not layer.weight[:3, c_in:].any()
    assert layer.weight[3:, c_in:].flatten(1).any(1).all()


def test_a_grown_layer_is_still_restored_bit_for_bit():
    layer = make_layer()
    layer.lock(torch.arange(8) < 3, 0)
    layer.grow_outputs(2)
    layer.grow_inputs(2)
    before = layer.weight.detach().clone()
    with torch.no_grad():
        layer.weight.add_(1.0)
    layer.restore()
    assert torch.equal(layer.weight[:3], before[:3])
    assert torch.equal(layer.weight[3:], before[3:] + 1.0)


def test_more_new_inputs_than_old_ones_are_possible():
    layer = make_layer("linear")
    layer.grow_inputs(50)
    assert layer.weight.shape == (8, 55)


def test_the_description_says_how_much_is_locked():
    layer = make_layer()
    layer.lock(torch.arange(8) < 3, 0)
    assert "locked=3/8" in repr(layer)
