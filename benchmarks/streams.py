"""A class-incremental training step at task 2, 5 and 20: time and peak memory must not grow with the tasks behind.

    python benchmarks/streams.py [--steps N] [--rounds N] [--method ccgn-episodic|ccgn-generative]

SimpleCNN, images in the shape of MNIST, batch 64 and a rehearsal batch of 64, one thread. Each past task uses ten
filters a layer (about what a trained run uses). Steps are timed in turn at each number of tasks, in one run; making the
pool of rehearsal images with their past features, done once an epoch, is timed apart and given per step. Peak memory
is of a process of its own for each number of tasks, from after import to the end of an epoch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

from engine import about_to_fit, endless, epoch, images
from lockgate.runs.build import build_learner
from lockgate.runs.loading import place
from lockgate.training.device import make_fabric
from lockgate.training.loop import Fit
from lockgate.types import Examples, Task
from timing import resident, table

BATCH = 64
TASKS = (2, 5, 20)
FILTERS = 10


def at_task(tasks: int, steps: int, method: str) -> Fit:
    """Training about to begin on the last of ``tasks`` tasks."""
    settings = {
        "ccgn-episodic": {"sparsity_warmup": 0, "translate": 2},
        "ccgn-generative": {"sparsity_warmup": 0, "gan": {"iterations": 1}},
    }
    experiment = endless(method, BATCH, **settings.get(method, {}))
    learner = build_learner(experiment, (1, 28, 28))
    fabric = make_fabric(experiment)
    data = images(steps * BATCH)
    for t in range(tasks):
        own = Examples(data.x, data.y, torch.full_like(data.task, t))
        task = Task(t, (2 * t, 2 * t + 1), own, own, own)
        learner.begin_task(task)
        place(learner, experiment, fabric.device)
        if t < tasks - 1:
            shut_all_but(FILTERS, learner, t)
            learner.end_task(Task(t, task.classes, own, Examples(own.x[:64], own.y[:64], own.task[:64]), own))
    return about_to_fit(fabric, learner, task, experiment)


@torch.no_grad()
def shut_all_but(count: int, learner, task: int) -> None:
    """Gates of a task that open ``count`` filters of each layer, other ones for each task, and never the rest."""
    for layer in learner.gated.values():
        excite = layer.gate(task).excite
        excite.weight.zero_()
        excite.bias.fill_(-1.0)
        excite.bias[(torch.arange(count) + task * 3) % layer.width] = 1.0


def peak(tasks: int, steps: int, method: str) -> None:
    """Print by how much an epoch's peak is above what the process held after import, in bytes."""
    before = resident("VmRSS")
    epoch(at_task(tasks, steps, method))
    print(json.dumps(resident("VmHWM") - before))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--method", default="ccgn-episodic")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        return peak(given.peak, given.steps, given.method)
    fits = {tasks: at_task(tasks, given.steps, given.method) for tasks in TASKS}
    pools: dict[int, list[float]] = {tasks: [] for tasks in TASKS}
    times: dict[int, list[float]] = {tasks: [] for tasks in TASKS}
    for fit in fits.values():
        epoch(fit)
    for _ in range(given.rounds):
        for tasks, fit in fits.items():
            fit.trainable.rehearsal.end_task()  # drops the pool
            start = time.process_time()
            fit.trainable.pool(BATCH)
            pools[tasks].append((time.process_time() - start) / given.steps)
            start = time.process_time()
            epoch(fit)
            times[tasks].append((time.process_time() - start) / given.steps)
    command = [sys.executable, str(Path(__file__)), "--steps", str(given.steps), "--method", given.method, "--peak"]
    peaks = {t: json.loads(subprocess.run([*command, str(t)], capture_output=True, check=True).stdout) for t in TASKS}
    base = TASKS[0]
    step, pool = ({t: statistics.median(seconds[t]) for t in TASKS} for seconds in (times, pools))
    rows = []
    for t in TASKS:
        cells = [t, f"{1e3 * step[t]:.0f}", f"{step[t] / step[base]:.2f}", f"{1e3 * pool[t]:.0f}"]
        both = (step[t] + pool[t]) / (step[base] + pool[base])
        rows.append([*cells, f"{both:.2f}", f"{peaks[t] / 2**20:.0f}", f"{peaks[t] / peaks[base]:.2f}"])
    title = f"{given.method}: a step of {BATCH} images and {BATCH} rehearsed; ratios to task 2 (goal at task 5: 1.2)"
    table(title, ["task", "ms a step", "ratio", "pool, ms a step", "both, ratio", "peak MiB", "ratio"], rows)
    return None


if __name__ == "__main__":
    main()
