"""Costs beside training: Fisher information, herding, the data path. One thread.

    python benchmarks/costs.py [--rounds N]

Fisher information of `ewc-online` after a task against one of its epochs; herding of 10,000 images; gathering a batch
of images and its labels, as every training step does.
"""

from __future__ import annotations

import argparse

import torch

from engine import BATCH, begun, endless, images
from lockgate.memory.herding import herding
from lockgate.types import Examples, Task
from timing import interleaved, table

TRAIN = 12_000
"""Images of a task, about as many as in Split MNIST."""


def fisher(rounds: int) -> list[object]:
    data = images(TRAIN)
    task = Task(0, (0, 1), data, data, data)
    fit = begun(endless("ewc-online", BATCH), task)
    steps = min(10, fit.phase.steps)

    def some_steps() -> None:
        fit.state.step, fit.state.sums = fit.phase.steps - steps, {}
        fit.train_epoch(0)

    found = interleaved({"steps": some_steps, "fisher": lambda: fit.trainable.end_task(task)}, rounds)
    epoch = found["steps"] * fit.phase.steps / steps
    return ["Fisher information of ewc-online, of an epoch", f"{found['fisher'] / epoch:.2f}", "0.5"]


def herd(rounds: int) -> list[object]:
    features = torch.nn.functional.normalize(torch.randn(10_000, 100, generator=torch.Generator().manual_seed(0)))
    found = interleaved({"herding": lambda: herding(features, 1_000)}, rounds)
    return ["herding 1,000 of 10,000 images of 100 features, seconds", f"{found['herding']:.2f}", "2"]


def data_path(rounds: int, name: str, shape: tuple[int, int, int], count: int) -> list[object]:
    rng = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=rng)
    data = Examples(x, torch.zeros(count, dtype=torch.int64), torch.zeros(count, dtype=torch.int64))
    fit = begun(endless("finetune", BATCH), Task(0, (0, 1), data, data, data))
    order = torch.randperm(count, generator=rng)
    found = interleaved({"draw": lambda: fit.draw(order, 3)}, rounds, repeat=50)
    return [f"data path, {name}, microseconds a sample", f"{1e6 * found['draw'] / min(BATCH, count):.2f}", "10"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = [
        fisher(given.rounds),
        herd(given.rounds),
        data_path(given.rounds, "digits", (1, 8, 8), 1_400),
        data_path(given.rounds, "mnist", (1, 28, 28), TRAIN),
    ]
    table("Costs beside training", ["", "measured", "goal: at most"], rows)


if __name__ == "__main__":
    main()
