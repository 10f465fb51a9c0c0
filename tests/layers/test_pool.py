"""Max pooling without a gradient has the bits of torch's own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from lockgate.layers.pool import FEW, max_pool


@pytest.mark.parametrize("side", [(8, 8), (7, 9), (2, 3)])
@pytest.mark.parametrize("images", [1, FEW + 5])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_same_bits_and_layout(side, images, layout):
    h = torch.randn(images, 5, *side).to(memory_format=layout)
    with torch.no_grad():
        found = max_pool(h)
    assert torch.equal(found, F.max_pool2d(h, 2))
    assert found.is_contiguous(memory_format=layout)


def test_gradients_are_torchs_own():
    h = torch.randn(FEW + 5, 3, 6, 6)
    h[:, :, 0, :2] = 9.0  # a tie: torch gives all of the gradient to one of them
    a, b = h.clone().requires_grad_(), h.clone().requires_grad_()
    max_pool(a).square().sum().backward()
    F.max_pool2d(b, 2).square().sum().backward()
    assert torch.equal(a.grad, b.grad)
