"""A data set as a sequence of disjoint classification tasks (paper, Sections 3.1 and 4.1)."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lockgate.config import ScenarioConfig
from lockgate.data.arrays import Arrays, Dataset
from lockgate.errors import ConfigError, DataError
from lockgate.training.seeding import generator
from lockgate.types import Examples, Task


@dataclass(frozen=True)
class Scenario:
    """A sequence of tasks and what is common to all of them."""

    tasks: tuple[Task, ...]
    class_names: tuple[str, ...]
    image_shape: tuple[int, int, int]  # (C, H, W)

    def names(self, task: Task) -> tuple[str, ...]:
        """The names of a task's classes, in the order of its local labels."""
        return tuple(self.class_names[c] for c in task.classes)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the names of all classes, and of every image and its label."""
        sha = hashlib.sha256(json.dumps([self.names(task) for task in self.tasks]).encode())
        for task in self.tasks:
            for part in (task.train, task.val, task.test):
                for tensor in (part.x, part.y):
                    sha.update(f"{tuple(tensor.shape)}".encode())
                    sha.update(tensor.contiguous().numpy().tobytes())
        return sha.hexdigest()


def split(dataset: Dataset, tasks: int, config: ScenarioConfig, seed: int) -> Scenario:
    """Cut ``dataset`` into ``tasks`` tasks of equally many classes, each with its own held-out images.

    Labels are remapped to 0 .. n-1 inside each task. The held-out images are drawn per class, by ``seed``; so are those
    to use, where ``config.per_class`` wants but some.
    """
    count = len(dataset.classes)
    if count % tasks:
        divisors = ", ".join(str(d) for d in range(1, count + 1) if count % d == 0)
        raise ConfigError(
            [f"'tasks' must divide {dataset.name}'s {count} classes. Got {tasks} instead; use one of {divisors}."]
        )
    for name, arrays in (("training", dataset.train), ("test", dataset.test)):
        _require_all_classes(dataset, name, arrays)
    order = list(range(count))
    if config.class_order == "random":
        order = torch.randperm(count, generator=generator(config.order_seed, "class order")).tolist()
    per_task = count // tasks
    made = []
    for t in range(tasks):
        classes = tuple(order[t * per_task : (t + 1) * per_task])
        whole = _select(dataset.train, classes, t)
        if config.per_class:
            whole = take(whole, _draw(whole.y, lambda _: config.per_class, generator(seed, "some", t)))
        held = hold_out(whole.y, config.held_out, generator(seed, "held out", t))
        made.append(
            Task(t, classes, take(whole, ~held), take(whole, held), _select(dataset.test, classes, t)),
        )
    channels, height, width = dataset.train.x.shape[1:]
    return Scenario(tuple(made), dataset.classes, (channels, height, width))


def join(tasks: tuple[Task, ...]) -> Task:
    """The joint view: all tasks as one, each with its own head."""
    return Task(
        id=0,
        classes=tuple(c for task in tasks for c in task.classes),
        train=Examples.union([task.train for task in tasks]),
        val=Examples.union([task.val for task in tasks]),
        test=Examples.union([task.test for task in tasks]),
        parts=tasks,
    )


def _require_all_classes(dataset: Dataset, split_name: str, arrays: Arrays) -> None:
    present = set(arrays.y.tolist())
    empty = [name for label, name in enumerate(dataset.classes) if label not in present]
    if empty:
        raise DataError(
            f"{dataset.name} has no {split_name} image of class {', '.join(map(repr, empty))}. "
            "Every class needs some: add images or leave the class out."
        )


def _select(arrays: Arrays, classes: tuple[int, ...], task: int) -> Examples:
    """The examples of ``classes``, labels remapped to their position in ``classes``."""
    labels = torch.from_numpy(arrays.y)
    local = torch.full((int(labels.max()) + 1,), -1)
    local[list(classes)] = torch.arange(len(classes))
    y = local[labels]  # (N,), -1 outside the task
    mine = y >= 0
    return Examples(torch.from_numpy(arrays.x)[mine], y[mine], torch.full((int(mine.sum()),), task))


def take(examples: Examples, mask: Tensor) -> Examples:
    """The examples where ``mask`` is true."""
    return Examples(examples.x[mask], examples.y[mask], examples.task[mask])


def hold_out(y: Tensor, share: float, rng: torch.Generator) -> Tensor:
    """A mask over ``y`` that holds out ``share`` of every class: at least one image, never the last one."""

    def count(images: int) -> int:
        if images < 2:
            raise DataError(
                f"A class has {images} training image; 2 are wanted, one to learn from and one to hold out. "
                "Add images or leave the class out."
            )
        return min(max(1, round(share * images)), images - 1)

    return _draw(y, count, rng)


def _draw(y: Tensor, count: Callable[[int], int], rng: torch.Generator) -> Tensor:
    """A mask over ``y`` with ``count(n)`` images, or all, of every class that has n."""
    drawn = torch.zeros(len(y), dtype=torch.bool)
    for label in sorted(set(y.tolist())):
        index = torch.nonzero(y == label).flatten()
        drawn[index[torch.randperm(len(index), generator=rng)[: count(len(index))]]] = True
    return drawn
