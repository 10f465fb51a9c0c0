"""How far the last task moved the weights of finished `ewc-online` runs, and where to.

    python benchmarks/drift.py RUN [RUN ...]

From the ends of the last two tasks, which a run keeps: the norm of the weights before the last task; how far they
moved; what the penalty makes of it at a strength of one; the share of the squared movement in the half of the weights
that has the least Fisher information; and the median and the largest of that (its mean is the number of tasks).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torch import Tensor

from lockgate.runs import checkpoint
from lockgate.runs.directory import RunFolder
from timing import table


def ends(run: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What the learner was before and after its last task."""
    points = [point for point in checkpoint.found(RunFolder(run).checkpoints) if point.kind == "task"]
    states = [point.tensors("learner") or {} for point in points[-2:]]
    if len(states) < 2 or any("fisher" not in state for state in states):
        raise SystemExit(f"{run}: wanted a run of `ewc-online` with two tasks or more.")
    return states[0], states[1]


def row(run: Path) -> list[object]:
    before, after = ends(run)
    fisher, moved = before["fisher"], after["anchor"] - before["anchor"]
    least = fisher.argsort()[: len(fisher) // 2]
    share = moved[least].square().sum() / moved.square().sum()
    penalty = (fisher * moved**2).sum() / 2
    numbers = (before["anchor"].norm(), moved.norm(), penalty, share, fisher.median(), fisher.max())
    return [run.name, *(f"{number:.3g}" for number in numbers)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    rows = [row(run) for run in parser.parse_args().runs]
    columns = ["run", "norm", "moved", "penalty", "share of least half", "median F", "largest F"]
    table("What the last task moved", columns, rows)
