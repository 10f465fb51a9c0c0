"""A convolution and the pooling after it, in one: the values that the two give one after the other."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

from lockgate.inference import neighbours
from lockgate.inference.compact import Compact
from lockgate.inference.neighbours import convolved_and_pooled, pays
from lockgate.layers.pool import pool_relu, relu


def by_loops(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, padding: int) -> torch.Tensor:
    """The same, pixel by pixel of what is pooled."""
    side = weight.shape[2]
    wide = F.pad(x, (padding,) * 4)
    height, width = (n - side + 1 for n in wide.shape[2:])
    made = torch.zeros(len(x), len(weight), height // 2, width // 2)
    for row, column in itertools.product(range(height // 2), range(width // 2)):
        seen = [
            (wide[:, None, :, y : y + side, z : z + side] * weight).sum((2, 3, 4)) + bias
            for y in (2 * row, 2 * row + 1)
            for z in (2 * column, 2 * column + 1)
        ]
        made[:, :, row, column] = torch.stack(seen).amax(0).clamp(min=0)
    return made


@pytest.mark.parametrize(("height", "width"), [(6, 6), (7, 9), (5, 4)])
@pytest.mark.parametrize(("side", "padding"), [(3, 1), (3, 0), (1, 0), (5, 2)])
def test_it_gives_what_pooling_a_convolution_gives(height: int, width: int, side: int, padding: int) -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(3, 2, height, width), torch.randn(4, 2, side, side), torch.randn(4)
    with torch.inference_mode():
        found = convolved_and_pooled(x, weight, bias, padding)
        torch.testing.assert_close(found, by_loops(x, weight, bias, padding))
        torch.testing.assert_close(found, pool_relu(F.conv2d(x, weight, bias, 1, padding)))


def test_few_filters_of_few_channels_on_many_images(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = torch.zeros(neighbours.FEWEST, 12, 6, 6), torch.zeros(4, 12, 3, 3)
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "AVX2")
    assert pays(x, weight, 1)
    assert not pays(x, torch.zeros(5, 12, 3, 3), 1)
    assert not pays(x, weight, 2)
    assert not pays(x[1:], weight, 1)
    assert not pays(x, torch.zeros(4, neighbours.MOST_INPUTS + 1, 3, 3), 1)
    assert not pays(x, torch.zeros(4, 12), 1)
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "AVX512")
    assert pays(x, torch.zeros(8, 12, 3, 3), 1)
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "DEFAULT")
    assert not pays(x, weight, 1), "what it is worth elsewhere was not measured"


@pytest.mark.parametrize("rows", [None, torch.tensor([0, 2, 3])])
def test_a_layer_answers_alike_with_and_without(rows: torch.Tensor | None, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer, x = Compact(torch.randn(4, 3, 3, 3), torch.randn(4), padding=1), torch.randn(neighbours.FEWEST, 3, 8, 8)
    monkeypatch.setattr(neighbours, "MOST_FILTERS", {torch.backends.cpu.get_cpu_capability(): 4})
    with torch.inference_mode():
        together = layer.mapped(x, rows, pool_relu)
        torch.testing.assert_close(together, pool_relu(layer.linear_map(x, rows)))
        assert layer.mapped(x, rows, relu).shape[2:] == x.shape[2:], "what pools not is not pooled"
