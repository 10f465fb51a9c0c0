"""Maps averaged to cells: what is exported gives what torch gives."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lockgate.inference.grid import averages, carrying, cells, joined_averages, mean
from lockgate.layers.pool import pooled


class Cells(nn.Module):
    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return cells(h, 4)


@pytest.mark.parametrize("shape", [(8, 8), (14, 14), (7, 7), (3, 5), (1, 1), (9, 2)])
def test_an_exported_graph_finds_the_cells_that_torch_finds_in_one_product(shape: tuple[int, int]) -> None:
    h = torch.randn(2, 3, *shape)
    program = torch.export.export(Cells(), (h,), strict=False)
    torch.testing.assert_close(program.module()(h), pooled(h, 4))
    called = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert any("matmul" in name for name in called)
    assert not any("pool" in name for name in called)


@pytest.mark.parametrize("shape", [(2, 3, 7, 7), (2, 5)])
def test_elsewhere_it_is_torchs_own(shape: tuple[int, ...]) -> None:
    h = torch.randn(*shape)
    assert torch.equal(cells(h, 4), pooled(h, 4))


def test_a_map_carries_what_was_found_for_all() -> None:
    h = torch.rand(4, 6, 7, 7)
    every = joined_averages([averages(part, 4) for part in h.split(3)])
    places, gates = torch.tensor([1, 1, 4]), torch.tensor([[1.0, 0.0, 1.0]] * 4)
    own = h[:, places] * gates[:, :, None, None]
    taken = carrying(own.clone(), every.gated(places, gates))
    torch.testing.assert_close(mean(taken), own.mean((2, 3)))
    torch.testing.assert_close(cells(taken, 4), pooled(own, 4))
    assert joined_averages([averages(h, None)]).gated(places, gates).cells is None, "nobody reads them"
    x = torch.rand(2, 3)
    assert mean(x) is x
