"""Eq. 5 without its coefficient, against plain loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.methods.ccgn.objective import sparsity


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 7), st.integers(0, 9999))
def test_every_layer_counts_the_same_whatever_its_width(widths, images, seed):
    rng = torch.Generator().manual_seed(seed)
    gates = tuple(torch.randint(0, 2, (images, width), generator=rng).float() for width in widths)
    per_image = []
    for b in range(images):
        terms = [sum(gate[b].tolist()) / width for gate, width in zip(gates, widths, strict=True)]
        per_image.append(sum(terms) / len(widths))
    assert float(sparsity(gates)) == pytest.approx(sum(per_image) / images, abs=1e-6)


def test_the_gradient_on_a_gate_is_one_over_layers_width_and_images():
    gates = (torch.ones(4, 5, requires_grad=True), torch.ones(4, 2, requires_grad=True))
    sparsity(gates).backward()
    assert torch.allclose(gates[0].grad, torch.full((4, 5), 1 / (2 * 5 * 4)))
    assert torch.allclose(gates[1].grad, torch.full((4, 2), 1 / (2 * 2 * 4)))
