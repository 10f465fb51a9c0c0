"""Multiply-accumulates of a network of another make: counted by watching one pass, nothing is traced.

Channels that gates shut are computed all the same, since none is cut: what is open is what is dense, and gates come on
top.
"""

from __future__ import annotations

from math import prod
from typing import cast

import torch
from torch import Tensor, nn

from lockgate.backbones.foreign import ForeignBackbone
from lockgate.backbones.foreign_look import Call, watched
from lockgate.layers.slots import SlotMap


@torch.no_grad()
def given_macs(backbone: ForeignBackbone, image_shape: tuple[int, int, int]) -> dict[str, float]:
    """Of one image through one stream, or through the network as it was given: they cost the same but for gates."""
    backbone.eval()
    weight = next(backbone.module.parameters())
    image = torch.zeros(1, *image_shape, device=weight.device)
    with watched(backbone.module, list(backbone.found.maps)) as calls:
        backbone.read_given(image)
    dense = float(sum(_of_call(call) for call in calls))
    gated = [slot for slot in backbone.slots if isinstance(slot, SlotMap) and slot.gated and len(slot.gates)]
    gates = float(sum(_of_gate(slot) for slot in gated))
    return {"dense": dense, "dense_paper": dense, "open": dense, "open_paper": dense, "gates": gates}


def _of_call(call: Call) -> int:
    """Each number that a map gives is a product with one of its filters."""
    return prod(call.out.shape[1:]) * cast(Tensor, call.module.weight)[0].numel()


def _of_gate(slot: SlotMap) -> int:
    """Of its two layers."""
    gate = slot.gate(0)
    parts = [part for part in gate.modules() if isinstance(part, nn.Linear)]
    return sum(part.in_features * part.out_features for part in parts)
