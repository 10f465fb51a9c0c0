"""What read-out, task classifier and companion know apart and together, of finished runs of ccgn-episodic.

    python benchmarks/experts.py RUN [RUN ...]

To choose by, runs are those of `--scenario.evaluate held_out` on seeds kept for choosing: no test image is opened.
Accuracy is the mean over tasks, no task given. "Both" multiplies read-out, root of the task classifier, and heads.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import torch
from torch import Tensor

from lockgate.methods.ccgn.class_incremental import ClassIncremental
from lockgate.methods.ccgn.task_classifier import for_classes
from lockgate.runs.loading import load
from lockgate.training.phase import eval_batch
from timing import table

KINDS = (
    "read-out",
    "task classifier",
    "both",
    "companion alone",
    "read-out and companion",
    "all three",
    "as it answers",
)
TRUST = 0.5
"""What the task classifier's logarithm counts beside the read-out's: more made both worse."""


@torch.no_grad()
def answers(learner: ClassIncremental, x: Tensor) -> list[Tensor]:
    """Log-probabilities (B, classes) by each kind, up to a constant."""
    features, logits, inputs = learner.inputs_of(learner.streams(x))
    heads = torch.cat([part.log_softmax(1) for part in logits], dim=1)
    assert learner.readout is not None
    read = learner.readout(inputs)
    outputs = learner._streams.classify(features)
    if learner.options.targets == "class":
        classified = outputs.log_softmax(1)
    else:
        classified = for_classes(learner.task_classifier.by_task(outputs), [part.shape[1] for part in logits])
    both = read + TRUST * classified + heads
    kinds = [read, classified + heads, both]
    if learner.companion is None:
        return kinds
    companion = learner.companion(learner.input(x)).log_softmax(1)
    return [*kinds, companion, read + companion, both.log_softmax(1) + companion, learner.answers(x)["joint"]]


def accuracies(run: Path) -> list[float]:
    """Of each kind, in one run."""
    learner, scenario, _ = load(run)
    assert isinstance(learner, ClassIncremental)
    learner.eval()
    right: list[list[float]] = [[] for _ in KINDS]
    first = 0
    for task in scenario.tasks:
        found = [answers(learner, x) for x in torch.split(task.test.x, eval_batch(task.test.x.shape))]
        for kind, parts in enumerate(zip(*found, strict=True)):
            chosen = torch.cat(parts).argmax(1)
            right[kind].append(float((chosen == task.test.y + first).float().mean()))
        first += len(task.classes)
    return [statistics.fmean(values) for values in right if values]


def main() -> None:
    """Print a table with a row for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    rows = ([run.name, *_cells(accuracies(run))] for run in parser.parse_args().runs)
    table("No task given", ("run", *KINDS), rows)


def _cells(values: list[float]) -> list[str]:
    """Of a run without a companion, the last are empty."""
    return [f"{value:.4f}" for value in values] + ["–"] * (len(KINDS) - len(values))


if __name__ == "__main__":
    main()
