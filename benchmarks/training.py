"""Training steps against the dense loop: with pruned filters, and at task 5 of a class-incremental run.

    python benchmarks/training.py [--epochs N] [--images N] [--steps N] [--rounds N] [--data-dir DIR]

Pruning: the first task of Split MNIST is learnt by the `short` preset, with and without pruning; then further epochs of
both and of `finetune` (same network, batch and optimiser) are timed in turn. Task 5: steps of `ccgn-episodic` with four
sealed tasks behind, the pool of rehearsal images included, against steps of `finetune`. All with the same allocator
settings, on one thread.
"""

from __future__ import annotations

import argparse
import dataclasses

import torch

from engine import begun, epoch
from lockgate.config import Experiment, RuntimeConfig, merge
from lockgate.evaluation.accuracy import accuracy
from lockgate.presets import short
from lockgate.runs.build import build_scenario, experiment_from
from lockgate.training.device import prepare_process
from lockgate.training.loop import Fit
from lockgate.types import Examples, Task
from streams import BATCH, at_task
from timing import interleaved, table, times


def first_task(given: argparse.Namespace) -> Task:
    """The first task of Split MNIST, or a part of it."""
    whole = build_scenario(mnist("finetune", given)).tasks[0]
    part = slice(0, given.images or len(whole.train))
    train = Examples(whole.train.x[part], whole.train.y[part], whole.train.task[part])
    return dataclasses.replace(whole, train=train)


def mnist(method: str, given: argparse.Namespace, **options: object) -> Experiment:
    base = short(method, "mnist").to_dict()
    runtime = dataclasses.asdict(RuntimeConfig(threads=1, accelerator="cpu", checkpoint_seconds=1e9))
    changes = {"runtime": runtime, "options": options, "data_dir": given.data_dir}
    if given.epochs:
        changes["epochs"] = given.epochs
    return experiment_from(merge(base, changes))


def pruning(given: argparse.Namespace) -> None:
    task = first_task(given)
    experiments = {
        "finetune": mnist("finetune", given),
        "ccgn, pruning": mnist("ccgn", given),
        "ccgn, no pruning": mnist("ccgn", given, prune=0.0),
    }
    prepare_process(experiments["finetune"])
    fits = {name: begun(experiment, task) for name, experiment in experiments.items()}
    for name, fit in fits.items():
        for number in range(experiments[name].epochs):
            epoch(fit, number)
    last = experiments["finetune"].epochs - 1
    seconds = interleaved({name: lambda f=fit: epoch(f, last) for name, fit in fits.items()}, given.rounds)
    rows = []
    for name, fit in fits.items():
        images = fit.phase.steps * experiments[name].optim.batch_size
        right = accuracy(fit.trainable, task.test, 0)
        row = [name, f"{images / seconds[name]:.0f}", times(seconds["finetune"] / seconds[name]), f"{right:.4f}"]
        rows.append([*row, open_filters(fit)])
    title = f"Training on task 1 of Split MNIST after {last + 1} epochs (goal with pruning: 2x)"
    table(title, ["", "samples a second", "against finetune", "test accuracy", "filters computed"], rows)


def open_filters(fit: Fit) -> str:
    learner = fit.trainable
    if not hasattr(learner, "gated"):
        return "all"
    return ", ".join(str(len(layer.writes.get(0, layer.weight))) for layer in learner.gated.values())


def task_five(given: argparse.Namespace) -> None:
    steps = given.steps
    five = at_task(5, steps, "ccgn-episodic")
    dense = at_task(1, steps, "finetune")

    def with_pool() -> None:
        five.trainable.rehearsal.end_task()  # drops the pool: made anew, as once an epoch
        epoch(five, 0)

    seconds = interleaved({"task 5": with_pool, "dense": lambda: epoch(dense, 0)}, given.rounds)
    speeds = {"dense loop": steps * BATCH / seconds["dense"], "task 5": 2 * steps * BATCH / seconds["task 5"]}
    rows = [[name, f"{speed:.0f}", times(speed / speeds["dense loop"])] for name, speed in speeds.items()]
    title = f"Task 5 of ccgn-episodic: {BATCH} new and {BATCH} rehearsed images a step (goal: 0.7x)"
    table(title, ["", "images a second", "against dense"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=0, help="0: the preset's")
    parser.add_argument("--images", type=int, default=0, help="training images of the task; 0: all")
    parser.add_argument("--steps", type=int, default=20, help="of an epoch of task 5")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data-dir")
    given = parser.parse_args()
    torch.set_num_threads(1)
    pruning(given)
    task_five(given)


if __name__ == "__main__":
    main()
