"""Layers of DGM's generator: maps against torch's, masks by hand, growth, and what a task leaves behind."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockgate.layers.growing import Growing, UnitMasked, WeightMasked
from lockgate.layers.maps import LinearMap, TransposedMap

KINDS = pytest.mark.parametrize("kind", [UnitMasked, WeightMasked])
OPTIMISERS = {
    "sgd": lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.1),
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=0.1, weight_decay=0.1),
}


def same(h):
    return h


def make(kind: type[Growing], tasks: int = 1) -> Growing:
    """A layer whose masks are decided, at random."""
    torch.manual_seed(0)
    layer = kind(4, 6, (2, 2), TransposedMap(2))
    for _ in range(tasks):
        layer.add_task()
        torch.nn.init.normal_(layer.embeddings[-1])
    return layer.eval()


def test_the_linear_map_is_torchs_linear_reshaped():
    torch.manual_seed(0)
    linear = nn.Linear(5, 3 * 2 * 4)
    weight = linear.weight.reshape(3, 2, 4, 5).permute(0, 3, 1, 2)  # (c_out, c_in, H, W)
    x = torch.randn(7, 5)
    out = LinearMap()(x, weight, linear.bias.reshape(3, 2, 4))
    torch.testing.assert_close(out, linear(x).unflatten(1, (3, 2, 4)))


@pytest.mark.parametrize(("kernel", "stride"), [(5, 1), (8, 2), (2, 2)])
def test_the_transposed_map_is_torchs_transposed_convolution(kernel, stride):
    torch.manual_seed(0)
    conv = nn.ConvTranspose2d(3, 4, kernel, stride=stride)
    x = torch.randn(2, 3, 4, 4)
    torch.testing.assert_close(TransposedMap(stride)(x, conv.weight.transpose(0, 1), conv.bias), conv(x))


@pytest.mark.parametrize("map_", [LinearMap(), TransposedMap(1), TransposedMap(2)])
def test_a_new_layer_keeps_the_scale_of_its_input(map_):
    """He et al. (2015): twice the variance, which a ReLU halves."""
    torch.manual_seed(0)
    layer = UnitMasked(64, 32, (4, 4), map_)
    layer.add_task()
    x = torch.randn(64, 64) if map_ == LinearMap() else torch.randn(16, 64, 12, 12)
    out = map_(x, layer.weight, layer.biases[0])
    inner = out if map_ == LinearMap() else out[:, :, 4:-4, 4:-4]  # fewer inputs meet at the edges
    assert inner.var().item() == pytest.approx(2.0, rel=0.1)


@KINDS
def test_masks_start_undecided_and_hold_what_has_not_moved(kind):
    layer = kind(4, 6, (2, 2), TransposedMap(2))
    layer.add_task()
    layer.scale = 1e4
    assert set(layer.train().mask(0).unique().tolist()) == {0.5}
    assert layer.held(0).all()
    with torch.no_grad():
        layer.embeddings[0].flatten()[1] = -1e-6
    assert int(layer.eval().mask(0).sum()) == layer.used.numel() - 1
    layer.freeze(torch.ones(4, dtype=torch.bool))
    assert layer.free == 1


def test_a_mask_over_units_multiplies_what_comes_after_the_activation():
    layer = make(UnitMasked)
    x = torch.randn(2, 4, 3, 3)
    out = layer(x, 0, F.relu)
    plain = F.relu(F.conv_transpose2d(x, layer.weight.transpose(0, 1), layer.biases[0], 2))
    for unit, e in enumerate(layer.embeddings[0].tolist()):
        torch.testing.assert_close(out[:, unit], plain[:, unit] if e > 0 else torch.zeros_like(plain[:, unit]))
    assert 0 < int((layer.embeddings[0] > 0).sum()) < 6


def test_a_mask_over_weights_multiplies_the_weights():
    layer = make(WeightMasked)
    x = torch.randn(2, 4, 3, 3)
    weight = layer.weight.detach().clone()
    weight[layer.embeddings[0] <= 0] = 0
    assert 0 < int((weight == 0).sum()) < weight.numel()
    torch.testing.assert_close(layer(x, 0, same), F.conv_transpose2d(x, weight.transpose(0, 1), layer.biases[0], 2))


@KINDS
def test_only_the_newest_mask_is_soft_and_only_while_training(kind):
    layer = make(kind, tasks=2).train()
    layer.scale = 3.0
    torch.testing.assert_close(layer.mask(1), 1 / (1 + torch.exp(-3 * layer.embeddings[1])))
    for mask in (layer.mask(0), layer.eval().mask(1)):
        assert set(mask.unique().tolist()) == {0.0, 1.0}


def test_a_weight_between_used_units_is_frozen_or_one_that_a_mask_holds():
    below = torch.tensor([True, True, False, False])
    units = make(UnitMasked)
    used = units.freeze(below)
    by_hand = torch.zeros(6, 4, dtype=torch.bool)
    for i, e in enumerate(units.embeddings[0].tolist()):
        for j in range(4):
            by_hand[i, j] = e > 0 and bool(below[j])
    assert used.tolist() == [e > 0 for e in units.embeddings[0].tolist()]
    assert torch.equal(units.frozen()[:, :, 0, 0], by_hand)
    weights = make(WeightMasked)
    weights.freeze(below)
    assert torch.equal(weights.frozen(), weights.embeddings[0] > 0)


@KINDS
@pytest.mark.parametrize("name", list(OPTIMISERS))
def test_past_outputs_and_locked_weights_keep_every_bit_while_a_wider_layer_learns(kind, name):
    layer = make(kind)
    below = torch.tensor([True, True, False, True])
    x = torch.randn(3, 4, 3, 3) * below[:, None, None]  # what the layer below gives under its own mask
    layer.freeze(below)
    out, locked = layer(x, 0, F.relu).detach(), layer.locked(0, below)[0].clone()
    layer.grow(9, 7)
    layer.add_task()
    layer.train()
    optimiser = OPTIMISERS[name]([layer.weight, layer.biases[-1], layer.embeddings[-1]])
    start = layer.weight.detach().clone()
    for _ in range(4):
        layer(torch.randn(3, 7, 3, 3), 1, F.relu).square().sum().backward()
        layer.hold_gradients()
        assert not layer.weight.grad[layer.frozen().expand_as(layer.weight)].any()
        layer.compensate(400.0)
        optimiser.step()
        optimiser.zero_grad()
        layer.restore()
        layer.bound()
    moved = layer.weight.detach() != start
    assert moved[~layer.frozen().expand_as(moved)].double().mean() > 0.9, "the rest learns"
    assert torch.equal(layer.eval()(x, 0, F.relu), out)
    assert torch.equal(layer.locked(0, below)[0], locked)


def test_units_grow_one_for_one():
    layer = make(UnitMasked)
    layer.embeddings[0].data = torch.tensor([1.0, 1, -1, -1, 1, -1])
    layer.freeze(torch.ones(4, dtype=torch.bool))
    assert layer.free == 3
    assert layer.width_with_free(6, 4) == 9
    layer.grow(9, 5)
    assert layer.free == 6
    assert layer.used.tolist() == [True, True, False, False, True] + [False] * 4
    assert layer.used_inputs.tolist() == [True] * 4 + [False]


def test_weights_grow_until_as_many_are_free_new_inputs_included():
    layer = make(WeightMasked)  # 6 units of 4 inputs and 4 positions: 96 weights
    layer.embeddings[0].data.fill_(-1.0)
    layer.embeddings[0].data[:4].fill_(1.0)  # 64 of them
    layer.freeze(torch.ones(4, dtype=torch.bool))
    assert layer.free == 32
    assert layer.width_with_free(96, 4) == 6 + 64 // 16
    # One more input brings 6 * 4 weights; of the other 40 each new unit brings 5 * 4.
    assert layer.width_with_free(96, 5) == 6 + 2
    layer.grow(8, 5)
    assert layer.free == 32 + 24 + 40
    assert layer.width_with_free(96, 5) == 8, "once is enough"


@KINDS
def test_a_loaded_layer_puts_back_what_is_frozen(kind):
    layer = make(kind)
    layer.freeze(torch.ones(4, dtype=torch.bool))
    other = make(kind)
    other.load_state_dict(layer.state_dict())
    with torch.no_grad():
        other.weight.add_(1)
    other.restore()
    frozen = layer.frozen().expand_as(layer.weight)
    assert torch.equal(other.weight[frozen], layer.weight[frozen])
    assert torch.equal(other.weight[~frozen], layer.weight[~frozen] + 1)
