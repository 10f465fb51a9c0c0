"""Zeros are left out on disk, and everything comes back to the bit."""

from __future__ import annotations

import torch

from lockgate.runs.packing import packed, unpacked


def sparse(*shape: int) -> torch.Tensor:
    """Every third entry is something."""
    torch.manual_seed(0)
    value = torch.randn(shape)
    value.view(-1)[torch.arange(value.numel()) % 3 > 0] = 0
    return value


def test_what_was_packed_comes_back_to_the_bit():
    negative = sparse(40, 8, 3, 3)
    negative[0, 0, 0, 1] = -0.0
    state = {
        "weight": negative,
        "last": negative.to(memory_format=torch.channels_last),
        "full": torch.randn(30, 30),
        "zero": torch.zeros(400),
        "few": torch.zeros(3),
        "owner": torch.zeros(900, dtype=torch.int64),
        "none": torch.empty(0),
        "odd|name": torch.ones(3),
        "odder|name|still": sparse(40, 40),
    }
    found = unpacked(packed(state))
    assert found.keys() == state.keys()
    for name, value in state.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape), name
        assert found[name].contiguous().numpy().tobytes() == value.contiguous().numpy().tobytes(), name


def test_zeros_take_a_bit_each():
    value = sparse(60, 60)
    size = sum(part.numel() * part.element_size() for part in packed({"weight": value}).values())
    assert size == 3600 // 8 + 4 * 1200
    assert packed({"whole": torch.ones(60, 60)}).keys() == {"whole"}
