"""Training speed of every method at its second task: images a second, as a ratio to `finetune`, interleaved.

    python benchmarks/methods.py [--steps N] [--rounds N] [METHOD ...]

SimpleCNN on images in the shape of MNIST, batch 128, one thread, the same loop for all. A step counts the 128 images
that the loop draws; what a method does beside (old networks, rehearsal, reference gradients) is its price. Gates are
open, as at the start of a task. What a method does between tasks (Fisher, herding, generators) is not in a step.
Methods in closed form have no steps.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable

import torch

from engine import BATCH, about_to_fit, compare, endless, epoch, images
from lockgate.methods import METHODS
from lockgate.runs.build import build_learner
from lockgate.runs.loading import place
from lockgate.training.device import make_fabric
from lockgate.types import Examples, Task

CHEAP = {"ccgn-episodic": {"buffer": 500}, "ccgn-generative": {"gan": {"iterations": 1}}}
"""Options for methods whose defaults would only lengthen what is not timed."""


def second_task(method: str, steps: int) -> Callable[[], None]:
    """One epoch of ``steps`` steps on the second of two tasks; both at once for a joint method."""
    experiment = endless(method, BATCH, **CHEAP.get(method, {}))
    learner = build_learner(experiment, (1, 28, 28))
    fabric = make_fabric(experiment)
    data = images(steps * BATCH)
    for t in range(2):
        own = Examples(data.x, data.y, torch.full_like(data.task, t))
        task = Task(t, (2 * t, 2 * t + 1), own, own, own)
        train = learner.begin_task(task)
        place(learner, experiment, fabric.device)
        if t == 0:
            learner.end_task(task)
    # Methods that train on a union of tasks take as many steps as the others here: a step is what is compared.
    chosen = torch.randperm(len(train))[: len(data)]
    train = Examples(*train.batch(chosen))
    fit = about_to_fit(fabric, learner, dataclasses.replace(task, train=train), experiment)
    return lambda: epoch(fit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    taught = [name for name in METHODS if not METHODS[name].closed_form]
    parser.add_argument("methods", nargs="*", default=taught, metavar="METHOD")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    names = ["finetune", *(name for name in given.methods if name != "finetune")]
    loops = {name: second_task(name, given.steps) for name in names}
    speeds = compare(loops, given.steps * BATCH, given.rounds)
    print("method           samples/s   ratio to finetune")
    for name, speed in speeds.items():
        print(f"{name:16} {speed:9.0f}   {speed / speeds['finetune']:.2f}")


if __name__ == "__main__":
    main()
