"""How many inputs a read-out should keep: it is fitted anew with fewer, of finished runs of ccgn-episodic.

    python benchmarks/readout_inputs.py RUN [RUN ...]

To choose by, runs are those of `--scenario.evaluate held_out` on seeds kept for choosing: no test image is opened.
Accuracy is the mean over tasks of the whole answer (``joint``), no task given.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import torch

from lockgate.methods.ccgn import ridge
from lockgate.methods.ccgn.class_incremental import ClassIncremental
from lockgate.methods.ccgn.readout import IMAGES
from lockgate.methods.ccgn.targets import class_targets
from lockgate.runs.loading import load
from lockgate.training.phase import eval_batch
from lockgate.training.seeding import generator
from timing import table

MOST = (1024, 2048, 4096, 1_000_000)


@torch.no_grad()
def accuracies(run: Path) -> list[float]:
    """By how many inputs are kept at most."""
    learner, scenario, _ = load(run)
    assert isinstance(learner, ClassIncremental)
    assert learner.readout is not None
    learner.eval()
    drawn = learner.rehearsal.copies(IMAGES, generator(0, "readout"))
    y = class_targets(learner, drawn.examples, known=len(learner.heads))
    parts = torch.split(drawn.x, eval_batch(drawn.x.shape))
    inputs = torch.cat([learner.inputs_of(learner.streams(x))[2] for x in parts])
    images = [torch.split(task.test.x, eval_batch(task.test.x.shape)) for task in scenario.tasks]
    seen = [[(learner.streams(x), x) for x in parts] for parts in images]
    found = []
    for most in MOST:
        ridge.MOST_INPUTS = most
        learner.readout.fit(inputs, y, drawn.image)
        right, first = [], 0
        for task, streams in zip(scenario.tasks, seen, strict=True):
            chosen = torch.cat([learner.answers_from(*part)["joint"].argmax(1) for part in streams])
            right.append(float((chosen == task.test.y + first).float().mean()))
            first += len(task.classes)
        found.append(statistics.fmean(right))
    return found


def main() -> None:
    """Print a table with a row for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    rows = ([run.name, *(f"{value:.4f}" for value in accuracies(run))] for run in parser.parse_args().runs)
    table("No task given, by inputs kept", ("run", *(f"{most:,}" for most in MOST[:-1]), "all"), rows)


if __name__ == "__main__":
    main()
