"""Maps averaged to cells: what is exported gives what torch gives."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lockgate.inference.grid import cells
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
