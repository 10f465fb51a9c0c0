"""Training in bfloat16 beside full precision: samples per second of the same method, interleaved.

    python benchmarks/precision.py [--steps N] [--rounds N] [METHOD ...]

The first task, SimpleCNN (100 filters) on images in the shape of MNIST, batch 128, one thread; gates are open, as at
the start of a task, and decide in fp32 either way. What it brings depends on the processor: without AVX512-BF16 or AMX,
bfloat16 is no faster.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from engine import BATCH, begun, compare, endless, epoch, images
from lockgate.config import Precision
from lockgate.reproduction.plan import computed_in
from lockgate.types import Task
from timing import table, times


def loop(method: str, steps: int, precision: Precision) -> Callable[[], None]:
    """One epoch of ``method`` in ``precision``."""
    data = images(steps * BATCH)
    fit = begun(computed_in(endless(method, BATCH), precision), Task(0, (0, 1), data, data, data))
    return lambda: epoch(fit, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=["finetune", "hat", "ccgn"], metavar="METHOD")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    rows = []
    for method in given.methods:
        loops = {p: loop(method, given.steps, p) for p in ("32-true", "bf16-mixed")}
        speeds = compare(loops, given.steps * BATCH, given.rounds)
        ratio = times(speeds["bf16-mixed"] / speeds["32-true"])
        rows.append([method, *(round(speed) for speed in speeds.values()), ratio])
    table("Images a second by precision", ("method", "fp32", "bf16-mixed", "faster"), rows)


if __name__ == "__main__":
    main()
