"""Many filters of few channels are convolved in pieces, and give what they give at once."""

from __future__ import annotations

import pytest
import torch

from lockgate.inference import compact
from lockgate.inference.compact import Compact
from lockgate.layers.pool import pool_relu


@pytest.mark.parametrize(("filters", "pieces"), [(64, 1), (72, 2), (80, 2), (100, 2), (136, 3)])
@pytest.mark.parametrize("rows", [False, True])
def test_pieces_are_of_like_size(monkeypatch, filters: int, pieces: int, rows: bool) -> None:
    torch.manual_seed(0)
    layer, x = Compact(torch.randn(filters + 4, 3, 3, 3), torch.randn(filters + 4), padding=1), torch.randn(5, 3, 8, 8)
    some = torch.arange(filters) + 2
    if not rows:
        layer, some = Compact(layer.weight[some], layer.bias[some], padding=1), None
    with torch.inference_mode():
        wanted = pool_relu(layer.linear_map(x, some))
        made, convolve = [], compact.F.conv2d
        monkeypatch.setattr(compact.F, "conv2d", lambda x, w, *rest: made.append(len(w)) or convolve(x, w, *rest))
        torch.testing.assert_close(layer.mapped(x, some, pool_relu), wanted)
    assert len(made) == pieces
    assert sum(made) == filters
    assert all(count % compact.REGISTER == 0 for count in made[:-1])


def test_of_many_channels_all_are_made_at_once(monkeypatch) -> None:
    layer = Compact(torch.randn(80, compact.FEW_INPUTS + 1, 3, 3), torch.randn(80), padding=1)
    made, convolve = [], compact.F.conv2d
    monkeypatch.setattr(compact.F, "conv2d", lambda x, w, *rest: made.append(len(w)) or convolve(x, w, *rest))
    layer.mapped(torch.randn(2, compact.FEW_INPUTS + 1, 8, 8), None, pool_relu)
    assert made == [80]
