"""Multiply-accumulates of a network of another make: counted by watching one pass, nothing is traced.

What is open is what a compiled stream computes: channels that its seals shut leave where the network allows it. Gates
that shut others for an image save nothing, and come on top.
"""

from __future__ import annotations

from math import prod
from typing import cast

import torch
from torch import Tensor

from lockgate.backbones.foreign import ForeignBackbone
from lockgate.backbones.foreign_cut import cut_stream
from lockgate.backbones.foreign_look import Call, watched
from lockgate.layers.gate import ChannelGate
from lockgate.layers.slots import SlotMap


@torch.no_grad()
def given_macs(backbone: ForeignBackbone, image_shape: tuple[int, int, int], task: int) -> dict[str, float]:
    """Of one image through the stream of ``task``; dense: through the network as it was given."""
    backbone.eval()
    weight = next(backbone.module.parameters())
    image, names = torch.zeros(1, *image_shape, device=weight.device), list(backbone.found.maps)
    with watched(backbone.module, names) as calls:
        backbone.read_given(image)
    dense = open_ = float(sum(_of_call(call) for call in calls))
    cut = cut_stream(backbone, task)
    if cut is not None:
        with watched(cut.module, names) as calls:
            cut(image)
        open_ = float(sum(_of_call(call) for call in calls))
    slots, at = (backbone.slots, task) if cut is None else (list(cut.module.modules()), 0)
    gated = [slot for slot in slots if isinstance(slot, SlotMap) and slot.gated and len(slot.gates)]
    gates = float(sum(_of_gate(slot.gate(at)) for slot in gated))
    return {"dense": dense, "dense_paper": dense, "open": open_, "open_paper": open_, "gates": gates}


def _of_call(call: Call) -> int:
    """Each number that a map gives is a product with one of its filters."""
    return prod(call.out.shape[1:]) * cast(Tensor, call.module.weight)[0].numel()


def _of_gate(gate: ChannelGate) -> int:
    """Of its two layers."""
    return gate.squeeze.weight.numel() + gate.excite.weight.numel()
