"""Multiply-accumulates of a network of another make, against a count by hand."""

from __future__ import annotations

import torch
from torch import nn

from lockgate.backbones.foreign import gate
from lockgate.evaluation.given_macs import given_macs


def counted(gates: bool) -> dict[str, float]:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    backbone = gate(network, torch.rand(2, 3, 6, 6), gates=gates)
    backbone.add_task()
    return given_macs(backbone, (3, 6, 6), 0)


def test_every_map_counts_each_number_it_gives_times_the_size_of_a_filter() -> None:
    by_hand = 6 * 6 * 8 * (3 * 3 * 3) + 6 * 6 * 4 * 8
    found = counted(gates=False)
    assert (found["dense"], found["open"], found["gates"]) == (by_hand, by_hand, 0)


def test_gates_come_on_top_two_layers_for_each_map() -> None:
    """Linear(channels in, 16), Linear(16, channels out), of both convolutions; nothing is cut for them."""
    found, without = counted(gates=True), counted(gates=False)
    assert found["gates"] == (3 * 16 + 16 * 8) + (8 * 16 + 16 * 4)
    assert found["open"] == without["dense"]
