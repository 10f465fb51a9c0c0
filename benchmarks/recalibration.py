"""What it brings that a stream's statistics are taken anew of images as they are, when its task ends.

    python benchmarks/recalibration.py [--dataset NAME] [--per-class N] [--seeds N] [--backbone NAME] [--width N]

The first task of the data set, by the preset `short` of `ccgn`; judged by training images that are held out, on the
seeds kept for choosing. Accuracy with the task given just before the task ends, its statistics those that training
left, and just after.
"""

from __future__ import annotations

import argparse

import torch

from lockgate.evaluation.accuracy import accuracy
from lockgate.reproduction.paper_table import preset
from lockgate.reproduction.select.trials import FIRST_SEED
from lockgate.runs.build import build_learner, build_scenario
from lockgate.runs.loading import place
from lockgate.runs.task_phase import task_phase
from lockgate.training.device import make_fabric, prepare_process
from lockgate.training.loop import Fit, FitState
from lockgate.training.progress import Progress
from timing import table

HELD_OUT = 0.3
"""Share of the training images that is not learnt from: a half of it is the method's, the other half judges."""


def row(seed: int, asked: argparse.Namespace) -> list[object]:
    """Train the first task with ``seed``; mistakes of each class and accuracy, before and after."""
    scenario = {"per_class": asked.per_class, "evaluate": "held_out", "held_out": HELD_OUT}
    model = {"width": asked.width} if asked.width else {}
    runtime = {"threads": 1, "precision": asked.precision}
    network = {"backbone": asked.backbone} if asked.backbone else {}
    experiment = preset(
        "short", "ccgn", asked.dataset, seed=seed, scenario=scenario, model=model, runtime=runtime, **network
    )
    prepare_process(experiment)
    built = build_scenario(experiment)
    task = built.tasks[0]
    torch.manual_seed(seed)
    learner = build_learner(experiment, built.image_shape)
    data, fabric = learner.begin_task(task), make_fabric(experiment)
    place(learner, experiment, fabric.device)
    phase = task_phase(learner, task, data, experiment)
    Fit(fabric, phase, experiment, FitState(), lambda _: None, Progress(1, 0, quiet=True)).run(lambda _: None)
    before = accuracy(learner, task.test, 0)
    learner.end_task(task)
    return [seed, len(task.test), f"{before:.4f}", f"{accuracy(learner, task.test, 0):.4f}"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--per-class", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--backbone")
    parser.add_argument("--width", type=int)
    parser.add_argument("--precision", default="bf16-mixed")
    asked = parser.parse_args()
    found = [row(FIRST_SEED + number, asked) for number in range(asked.seeds)]
    table("First task, held-out images", ["seed", "images", "statistics of training", "of images as they are"], found)
