"""A data set as a sequence of classification tasks: disjoint classes (paper, Sections 3.1 and 4.1), or domains."""

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
from lockgate.data.size import TaskSize
from lockgate.errors import ConfigError, DataError
from lockgate.scenario.domains import MovedExamples, pixel_sources
from lockgate.scenario.order import class_order
from lockgate.scenario.rows import examples_of
from lockgate.training.seeding import generator
from lockgate.types import Examples, Task

PART = 256
"""Images that are looked at together to be summed up."""


@dataclass(frozen=True)
class Scenario:
    """A sequence of tasks and what is common to all of them."""

    tasks: tuple[Task, ...]
    class_names: tuple[str, ...]
    image_shape: tuple[int, int, int]  # (C, H, W)

    def names(self, task: Task) -> tuple[str, ...]:
        """The names of a task's classes, in the order of its local labels."""
        return tuple(self.class_names[c] for c in task.classes)

    @property
    def shares_classes(self) -> bool:
        """Whether tasks have classes in common: then an answer without the task can be right in its class alone."""
        classes = [c for task in self.tasks for c in task.classes]
        return len(set(classes)) < len(classes)

    @property
    def task_size(self) -> TaskSize:
        """What a recipe is fitted to."""
        images = sum(len(task.train) for task in self.tasks) // len(self.tasks)
        return TaskSize(images, max(self.image_shape[1:]))

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the names of all classes, and of every image and its label."""
        sha = hashlib.sha256(json.dumps([self.names(task) for task in self.tasks]).encode())
        for task in self.tasks:
            for part in (task.train, task.val, task.test):
                sha.update(f"{(len(part), *self.image_shape)}".encode())
                for x in part.parts(PART):
                    sha.update(x.contiguous().numpy().tobytes())
                sha.update(f"{tuple(part.y.shape)}".encode())
                sha.update(part.y.contiguous().numpy().tobytes())
        return sha.hexdigest()


def split(dataset: Dataset, tasks: int, config: ScenarioConfig, seed: int) -> Scenario:
    """Cut ``dataset`` into ``tasks`` tasks of equally many classes, or of all classes in as many domains.

    Labels are remapped to 0 .. n-1 inside each task. The held-out images are drawn per class, by ``seed``; so are those
    to use, where ``config.per_class`` wants but some. Evaluated on ``held_out``, every other one of these is for
    testing and not for the method, and the test images of ``dataset`` are left unread.
    """
    count = len(dataset.classes)
    _require_all_classes(dataset, "training", dataset.train)
    if config.evaluate == "test":
        _require_all_classes(dataset, "test", dataset.test)
    order = class_order(count, config)
    channels, height, width = dataset.train.x.shape[1:]
    made = (
        _by_class(dataset, tasks, order, config, seed)
        if config.kind == "classes"
        else _by_domain(dataset, tasks, order, config, seed)
    )
    return Scenario(tuple(made), dataset.classes, (channels, height, width))


def _by_class(dataset: Dataset, tasks: int, order: list[int], config: ScenarioConfig, seed: int) -> list[Task]:
    count = len(order)
    if count % tasks:
        divisors = ", ".join(str(d) for d in range(1, count + 1) if count % d == 0)
        raise ConfigError(
            [f"'tasks' must divide {dataset.name}'s {count} classes. Got {tasks} instead; use one of {divisors}."]
        )
    per_task = count // tasks
    made = []
    for t in range(tasks):
        classes = tuple(order[t * per_task : (t + 1) * per_task])
        whole = _select(dataset.train, classes, t)
        if config.per_class:
            whole = whole.take(_draw(whole.y, lambda _: config.per_class, generator(seed, "some", t)))
        held = hold_out(whole.y, config.held_out, generator(seed, "held out", t))
        val = whole.take(held)
        if config.evaluate == "held_out":
            judged = _every_other(val.y)
            val, test = val.take(~judged), val.take(judged)
        else:
            test = _select(dataset.test, classes, t)
        made.append(Task(t, classes, whole.take(~held), val, test))
    return made


def _by_domain(dataset: Dataset, tasks: int, order: list[int], config: ScenarioConfig, seed: int) -> list[Task]:
    """Tasks of the same images and classes, each in a domain of its own. What is held out is so in all of them."""
    assert config.kind != "classes"
    local = torch.tensor(order).argsort()  # the place of each class in ``order``
    y = local[torch.from_numpy(dataset.train.y)]
    used = torch.arange(len(y))
    if config.per_class:
        used = used[_draw(y, lambda _: config.per_class, generator(seed, "some", 0))]
    held = hold_out(y[used], config.held_out, generator(seed, "held out", 0))
    train_rows, val_rows, judged_rows = used[~held], used[held], used[:0]
    if config.evaluate == "held_out":
        judged = _every_other(y[val_rows])
        val_rows, judged_rows = val_rows[~judged], val_rows[judged]
    height, width = dataset.train.x.shape[2:]
    made = []
    for t in range(tasks):
        sources = pixel_sources(config.kind, t, tasks, height, width, config.order_seed)
        x = torch.from_numpy(dataset.train.x)
        train, val, test = (MovedExamples(x, rows, y[rows], t, sources) for rows in (train_rows, val_rows, judged_rows))
        if config.evaluate == "test":
            tested = local[torch.from_numpy(dataset.test.y)]
            every = torch.arange(len(tested))
            test = MovedExamples(torch.from_numpy(dataset.test.x), every, tested, t, sources)
        made.append(Task(t, tuple(order), train, val, test))
    return made


def _every_other(y: Tensor) -> Tensor:
    """Of each label of the held-out images, ``y`` (N,), every other place, beginning with the first, (N,) bool."""
    chosen = torch.zeros(len(y), dtype=torch.bool)
    for label in torch.unique(y):
        places = torch.nonzero(y == label).flatten()
        if len(places) < 2:
            raise ConfigError(
                [
                    "With 'scenario.evaluate' held_out, two images of each class must be held out at least: one for "
                    "the method, one to judge it. Raise 'scenario.held_out' or 'scenario.per_class'."
                ]
            )
        chosen[places[::2]] = True
    return chosen


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
    return examples_of(arrays.x, y, task).take(y >= 0)


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
