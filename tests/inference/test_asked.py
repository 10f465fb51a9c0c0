"""A companion is asked about the images that streams are unsure of, in exported graphs too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from lockgate.methods.ccgn.companion import asked, beside


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.companion = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(64, 5))

    def forward(self, x: Tensor, told: Tensor, unsure: Tensor) -> Tensor:
        return asked(self.companion, x, told, unsure)


@pytest.mark.parametrize("exported", [False, True])
@pytest.mark.parametrize("count", [1, 6])
def test_it_has_no_say_in_the_others(exported: bool, count: int) -> None:
    torch.manual_seed(0)
    both, x, told = Both().eval(), torch.randn(count, 1, 6, 6), torch.randn(count, 5).log_softmax(1)
    answer: nn.Module = both
    if exported:
        batch = {0: torch.export.Dim("batch")}
        given = (torch.randn(3, 1, 6, 6), told[:1].repeat(3, 1), torch.ones(3, dtype=torch.bool))
        program = torch.export.export(both, given, dynamic_shapes=(batch, batch, batch), strict=False)
        answer = program.module()
        branches = [module for name, module in program.graph_module.named_modules() if "true" in name]
        found = {str(node.target) for module in branches for node in module.graph.nodes}
        assert "aten.nonzero.default" in found, "asked about a part of the batch"
    with torch.no_grad():
        wanted = beside(told, both.companion(x))
        for mask in (torch.zeros(count), torch.ones(count), torch.arange(count) % 2):
            unsure = mask > 0
            expected = torch.where(unsure[:, None], wanted, told)
            torch.testing.assert_close(answer(x, told, unsure), expected)
