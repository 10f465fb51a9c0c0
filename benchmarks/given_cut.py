"""What cutting a given network's stream saves: EfficientNet-Lite0, all layers gated, half of all gates shut by a draw.

    python benchmarks/given_cut.py [--size 128]

Random weights; nothing is learnt, so this says what shut gates are worth and not how many a task would shut. CPU
milliseconds an image in batches of 16 on one thread, three forms in turn, medians of nine rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch

from lockgate.backbones.base import Backbone
from lockgate.backbones.efficientnet_lite0 import EfficientNetLite0
from lockgate.backbones.foreign import ForeignBackbone, gate
from lockgate.backbones.foreign_cut import cut_stream
from lockgate.evaluation.given_macs import given_macs
from lockgate.layers.slots import SlotMap
from timing import interleaved, table

IMAGES, ROUNDS = 16, 9


def made(size: int, gates: bool) -> Backbone:
    """With one task."""
    torch.manual_seed(0)
    backbone = gate(EfficientNetLite0(), torch.randn(2, 3, size, size), gates=gates)
    backbone.add_task()
    return backbone.eval()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=128)
    size = parser.parse_args().size
    torch.set_num_threads(1)
    plain, gated = made(size, False), made(size, True)
    assert isinstance(gated, ForeignBackbone)
    draw = torch.Generator().manual_seed(1)
    for slot in gated.slots:
        if isinstance(slot, SlotMap) and slot.gated:
            slot.gate(0).seal.copy_(torch.rand(slot.width, generator=draw) < 0.5)
    cut = cut_stream(gated, 0)
    assert cut is not None
    x = torch.randn(IMAGES, 3, size, size)
    asked: dict[str, Callable[[], object]] = {
        "without gates": lambda: plain(x, 0),
        "with gates, whole": lambda: gated(x, 0),
        "with gates, cut": lambda: cut(x),
    }
    with torch.inference_mode():
        took = interleaved(asked, ROUNDS)
    macs = given_macs(gated, (3, size, size), 0)
    shares = [1.0, 1 + macs["gates"] / macs["dense"], (macs["open"] + macs["gates"]) / macs["dense"]]
    rows = [
        [name, f"{share:.2f}", f"{1000 * took[name] / IMAGES:.1f}"] for (name, share) in zip(asked, shares, strict=True)
    ]
    table("Half of the gates shut", ("stream", "MACs, of the network's", "CPU ms an image"), rows)


if __name__ == "__main__":
    main()
