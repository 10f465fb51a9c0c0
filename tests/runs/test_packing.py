"""Zeros are left out on disk, and everything comes back to the bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lockgate.errors import CheckpointError
from lockgate.runs.packing import LENGTH, packed, unpacked


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
        "seal": torch.rand(900) < 0.1,
        "fires": torch.zeros(30, 30),
    }
    found = unpacked(packed(state))
    assert found.keys() == state.keys()
    for name, value in state.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape), name
        assert found[name].contiguous().numpy().tobytes() == value.contiguous().numpy().tobytes(), name


def test_zeros_take_a_bit_each_and_less_where_they_lie_in_rows_and_columns():
    luck = torch.randn(60, 60).masked_fill(torch.rand(60, 60) < 0.5, 0)
    assert size(luck) == LENGTH + 3600 // 8 + 4 * int((luck != 0).sum())
    columns = torch.randn(60, 60).index_fill(1, torch.randperm(60)[:30], 0)
    assert size(columns) < 4 * 1800 + 60
    assert size(torch.zeros(60, 60)) == 0
    assert packed({"whole": torch.ones(60, 60)}).keys() == {"whole"}


def test_flags_are_a_bit_each():
    flags = torch.rand(1600) < 0.5
    assert size(flags) == LENGTH + 200
    assert size(torch.ones(1600, dtype=torch.bool)) < 20
    assert torch.equal(unpacked(packed({"seal": flags}))["seal"], flags)


def test_format_5_is_read():
    value = sparse(40, 5)
    there = torch.from_numpy(np.packbits(value.flatten().numpy() != 0))
    written = {"weight|40x5|there": there, "weight|40x5|values": value[value != 0]}
    assert torch.equal(unpacked(written)["weight"], value)


def test_what_was_not_packed_here_is_refused_by_name():
    ((key, small),) = packed({"weight": torch.zeros(60, 60).index_fill(1, torch.arange(7), 1.0)}).items()
    small[LENGTH] ^= 0b110  # a kind of block that deflate does not know
    with pytest.raises(CheckpointError, match=r"weight\|60x60\|float32 cannot be read"):
        unpacked({key: small})


def size(value: torch.Tensor) -> int:
    """Bytes of what stands for ``value``."""
    return sum(part.numel() * part.element_size() for part in packed({"value": value}).values())
