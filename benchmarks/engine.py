"""Our loop against a bare PyTorch loop: samples per second on the same network, data and optimiser, interleaved.

    python benchmarks/engine.py [--steps N] [--rounds N]

Both run SimpleCNN (100 filters) on MNIST-sized images, batch 128, AdamW, clipping, one thread, in one process, turn by
turn; the ratio is that of the fastest rounds, since noise only ever adds time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from lockgate.config import AugmentConfig, Experiment, OptimConfig, RuntimeConfig
from lockgate.methods.base import Method
from lockgate.runs.build import build_learner, validated
from lockgate.runs.loading import place
from lockgate.runs.task_phase import task_phase
from lockgate.training.device import make_fabric, prepare_process
from lockgate.training.loop import Fit, FitState
from lockgate.training.progress import Progress
from lockgate.types import Examples, Task
from timing import interleaved

BATCH = 128


def images(count: int) -> Examples:
    """Random images in the shape of MNIST; timing does not depend on what they show."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (count, 1, 28, 28), dtype=torch.uint8, generator=rng)
    return Examples(x, torch.randint(0, 2, (count,), generator=rng), torch.zeros(count, dtype=torch.int64))


def endless(method: str, batch_size: int, translate: int = 0, **options: Any) -> Experiment:
    """An experiment on images in the shape of MNIST that goes on until nobody measures any more. Tunes this process."""
    experiment = validated(
        Experiment(
            method=method,
            dataset="mnist",
            epochs=10_000,
            optim=OptimConfig(batch_size=batch_size, schedule="constant"),
            augment=AugmentConfig(random_translate=translate, images="rehearsed"),
            options=options,
            runtime=RuntimeConfig(threads=1, accelerator="cpu", checkpoint_seconds=1e9),
        )
    )
    prepare_process(experiment)
    return experiment


def begun(experiment: Experiment, task: Task) -> Fit:
    """Training on the first task, of a fresh learner."""
    torch.manual_seed(0)
    learner = build_learner(experiment, tuple(task.train.x.shape[1:]))
    learner.begin_task(task)
    fabric = make_fabric(experiment)
    place(learner, experiment, fabric.device)
    return about_to_fit(fabric, learner, task, experiment)


def epoch(fit: Fit, number: int = 0) -> None:
    """All steps of an epoch, without the evaluation at its end."""
    fit.state.step, fit.state.sums = 0, {}
    fit.train_epoch(number)


def about_to_fit(fabric: Any, learner: Method, task: Task, experiment: Experiment) -> Fit:
    """Training on ``task``, which has begun."""
    phase = task_phase(learner, task, task.train, experiment)
    return Fit(fabric, phase, experiment, FitState(), lambda _: None, Progress(1, 0, quiet=True))


def our_loop(steps: int, method: str = "finetune") -> Callable[[], None]:
    """One epoch of the training loop."""
    data = images(steps * BATCH)
    fit = begun(endless(method, BATCH), Task(0, (0, 1), data, data, data))
    return lambda: epoch(fit, 5)


def bare_loop(steps: int) -> Callable[[], None]:
    """The same network and data in the fewest lines PyTorch allows."""
    data = images(steps * BATCH)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 100, 3, padding=1),
        torch.nn.MaxPool2d(2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(100, 100, 3, padding=1),
        torch.nn.MaxPool2d(2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(100, 100, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(100, 2),
    ).to(memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=5e-4)

    def epoch() -> None:
        order = torch.randperm(len(data))
        for step in range(steps):
            index = order[step * BATCH : (step + 1) * BATCH]
            x, y = (data.x[index] / 255 - 0.5) / 0.3, data.y[index]
            F.cross_entropy(net(x), y).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()

    return epoch


def compare(loops: dict[str, Callable[[], None]], images_per_round: int, rounds: int) -> dict[str, float]:
    """Samples per second of each loop, measured in turns; each loop's fastest round counts."""
    return {name: images_per_round / seconds for name, seconds in interleaved(loops, rounds, of=min).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=8)
    given = parser.parse_args()
    speeds = compare({"bare": bare_loop(given.steps), "ours": our_loop(given.steps)}, given.steps * BATCH, given.rounds)
    ratio = speeds["ours"] / speeds["bare"]
    print(f"bare PyTorch loop  {speeds['bare']:8.0f} samples/s")
    print(f"lockgate loop      {speeds['ours']:8.0f} samples/s   ratio {ratio:.3f} (goal 0.95)")


if __name__ == "__main__":
    main()
