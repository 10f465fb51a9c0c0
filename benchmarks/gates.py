"""A gated training step against the dense one: samples per second on SimpleCNN, interleaved, one thread.

    python benchmarks/gates.py [--steps N] [--rounds N]

Same loop, same data, same optimiser; the gated network adds a gate per layer, the sparsity objective and the lock.
"""

from __future__ import annotations

import argparse

from engine import BATCH, compare, our_loop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=8)
    given = parser.parse_args()
    loops = {"dense": our_loop(given.steps), "gated": our_loop(given.steps, "ccgn")}
    speeds = compare(loops, given.steps * BATCH, given.rounds)
    print(f"dense step  {speeds['dense']:8.0f} samples/s")
    print(f"gated step  {speeds['gated']:8.0f} samples/s   ratio {speeds['gated'] / speeds['dense']:.3f} (goal 0.7)")


if __name__ == "__main__":
    main()
