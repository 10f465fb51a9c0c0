"""Layers of several streams as one: each filter once, and every stream finds its own."""

from __future__ import annotations

import torch

from lockgate.inference import union as unions
from lockgate.inference.compact import Compact
from lockgate.inference.union import pays, union


def layers(weight: torch.Tensor, bias: torch.Tensor, *filters: list[int]) -> list[Compact]:
    """Some filters of one layer each, two zeros filled up."""
    found = []
    for rows in filters:
        kept, blank = torch.tensor(rows), torch.zeros(2, *weight.shape[1:])
        full = torch.cat([weight[kept], blank]), torch.cat([bias[kept], torch.zeros(2)])
        found.append(Compact(*full, padding=1, filters=kept))
    return found


def test_every_stream_finds_its_own_filters() -> None:
    torch.manual_seed(0)
    weight, bias, x = torch.randn(9, 2, 3, 3), torch.randn(9), torch.randn(4, 2, 6, 6)
    apart = layers(weight, bias, [0, 3, 4], [3, 4, 8], [1])
    found = union(apart)
    assert found is not None
    assert found.layer.width == 8, "five of them, filled up"
    maps = found.layer.linear_map(x)
    for layer, places in zip(apart, found.places, strict=True):
        count = len(layer.filters)
        torch.testing.assert_close(maps[:, places][:, :count], layer.linear_map(x)[:, :count])
        assert len(places) == layer.width


def test_what_differs_is_not_one() -> None:
    weight, bias = torch.randn(9, 2, 3, 3), torch.randn(9)
    first, second = layers(weight, bias, [0, 3], [3, 4])
    with torch.no_grad():
        second.weight[0] += 1
    assert union([first, second]) is None


def test_it_pays_where_much_is_shared(monkeypatch) -> None:
    weight, bias = torch.randn(9, 2, 3, 3), torch.randn(9)
    monkeypatch.setattr(unions, "filled", lambda count: count)
    monkeypatch.setattr(unions, "PAYS", 0.5)
    assert pays(layers(weight, bias, [0, 1, 2, 3], [0, 1, 2, 3]))
    assert not pays(layers(weight, bias, [0, 1, 2, 3, 8], [4, 5, 6, 7]))
