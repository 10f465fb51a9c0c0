"""A trained learner with the names of what it knows: what predicting, exporting and serving start from."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lockgate.app.model_dir import Model, is_model, read_model, require_trained
from lockgate.config import DataConfig
from lockgate.data.preprocessing import Preprocessing
from lockgate.errors import CheckpointError, LockgateError, UnknownNameError
from lockgate.inference.compile import Compiled, compile_learner
from lockgate.methods.base import Method
from lockgate.registry import near_matches
from lockgate.runs.build import build_scenario
from lockgate.runs.loading import load_alone
from lockgate.runs.objects import NOTHING, Objects
from lockgate.training.device import prepare_process
from lockgate.training.phase import eval_batch
from lockgate.types import Examples

Form = Literal["exact", "compiled"]
"""The learner itself, whose answers are promised never to change by a bit; or what it was compiled to, which is faster
and agrees with it up to rounding."""
WORTH_COMPILING = 32
"""Images from which on compiling pays: it takes as long as about so many answers."""

FEWEST = 16
"""Probes from which on they show which filters are seldom needed."""


class Answer(NamedTuple):
    """One candidate for what an image shows."""

    name: str
    task: str
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON, in the words of the table: `class` is no name for a field in Python."""
        return {"class": self.name, "task": self.task, "confidence": self.confidence}


@dataclass(frozen=True)
class Trained:
    """A learner in evaluation mode, as its newest finished task left it.

    It is made when it is first asked: whoever opens a model to learn one more task, or to see what it knows, does not
    wait for the modules of all tasks. Files have been read and checked by then.
    """

    find_learner: Callable[[], Method]
    tasks: tuple[str, ...]
    """The name of every task learnt."""
    classes: tuple[tuple[str, ...], ...]
    """For every task, the names of its classes in the order of its local labels."""
    find_tests: Callable[[], tuple[Examples, ...]]
    data: DataConfig = field(default_factory=DataConfig)
    """How pictures became what it learnt from."""
    keeps_tests: bool = False
    """Whether its test images are kept beside it, as the probes of a model are: then looking at them is cheap."""

    @functools.cached_property
    def learner(self) -> Method:
        """The learner itself."""
        return self.find_learner()

    @functools.cached_property
    def tests(self) -> tuple[Examples, ...]:
        """For every task, its test images; of a model, the probes that it keeps. A run's data must be here for that."""
        return self.find_tests()

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of all classes, in the order of ``Method.predict`` without a task."""
        return tuple(name for names in self.classes for name in names)

    @property
    def task_of_class(self) -> tuple[int, ...]:
        """For every class of ``class_names``, its task."""
        return tuple(task for task, names in enumerate(self.classes) for _ in names)

    @property
    def image_size(self) -> int:
        """Side of the squares it looks at."""
        return self.learner.image_shape[1]

    @property
    def greyscale(self) -> bool:
        """Whether it looks at one channel."""
        return self.learner.image_shape[0] == 1

    @property
    def preprocessing(self) -> Preprocessing:
        """What is done to a picture before it is looked at: as to those that were learnt from."""
        return Preprocessing.of(replace(self.data, image_size=self.image_size, greyscale=self.greyscale))

    def task_id(self, name: str | int) -> int:
        """The number of the task called ``name``; a number that no task is called counts from 0."""
        name = str(name)
        numbers = [str(number) for number in range(len(self.tasks))]
        if name not in self.tasks and name in numbers:
            return int(name)
        if name not in self.tasks:
            known = ", ".join(repr(task) for task in self.tasks)
            raise UnknownNameError(f"Unknown task {name!r}.{near_matches(name, list(self.tasks))} Known: {known}.")
        return self.tasks.index(name)

    @functools.cached_property
    def compiled(self) -> Compiled | None:
        """The learner compiled to what it can open: the same classes, up to rounding, in less time; None: it cannot be.

        Probes of all tasks, where there are some, show which filters are seldom needed. What is promised never to
        change by a bit are the learner's own answers.
        """
        try:
            return compile_learner(self.learner, self._sample())
        except LockgateError:
            return None

    def _sample(self) -> Tensor | None:
        """Images like those to come; None: too few are at hand, or still there, to say what is seldom."""
        if not self.keeps_tests:
            return None
        try:
            kept = self.tests
        except CheckpointError:  # the folder is gone; what is in memory still answers
            return None
        return torch.cat([examples.x for examples in kept]) if sum(map(len, kept)) >= FEWEST else None

    def form_for(self, images: int) -> Form:
        """The form that answers ``images`` sooner: to compile takes as long as some answers do."""
        return "compiled" if images >= WORTH_COMPILING and self.compiled is not None else "exact"

    @torch.no_grad()
    def probabilities(self, x: Tensor, task: int | None = None, form: Form = "exact") -> Tensor:
        """For images (B, C, H, W) uint8, the probability of every class of ``class_names``, (B, classes).

        With ``task`` given, classes of other tasks have none. Without, the learner must be one that finds the task.
        """
        if task is None and len(self.tasks) == 1:
            task = 0
        if task is None and not self.learner.class_incremental:
            names = ", ".join(repr(name) for name in self.tasks)
            raise UnknownNameError(
                "No task was given, and this model keeps no memory from which it could have learnt to tell its tasks "
                f"apart. Give one of {names}."
            )
        self.learner.eval()
        device = self.learner.input.mean.device
        x = x.clone(memory_format=torch.contiguous_format)  # strides choose kernels: same pixels, same bits
        answering = self.compiled if form == "compiled" and self.compiled is not None else self.learner
        size = eval_batch(x.shape)
        order = _alike(x) if form == "compiled" and len(x) > size else torch.arange(len(x))
        parts = [answering.predict(x[part].to(device), task).softmax(1).cpu() for part in torch.split(order, size)]
        found = torch.cat(parts)[torch.argsort(order)]
        if task is None:
            return found
        every = found.new_zeros(len(found), len(self.class_names))
        every[:, torch.tensor(self.task_of_class) == task] = found
        return every

    def ask(self, x: Tensor, task: int | None = None, top: int = 1, form: Form = "exact") -> list[list[Answer]]:
        """For each image of ``x`` (B, C, H, W) uint8, its ``top`` most probable classes, the best first."""
        found = self.probabilities(x, task, form).numpy()
        count = top if task is None else min(top, len(self.classes[task]))
        best = np.argsort(-found, axis=1, kind="stable")[:, :count]  # (B, count)
        names, tasks = self.class_names, [self.tasks[t] for t in self.task_of_class]
        rows = zip(best.tolist(), np.take_along_axis(found, best, axis=1).tolist(), strict=True)
        return [[Answer(names[i], tasks[i], value) for i, value in zip(order, row, strict=True)] for order, row in rows]


def _alike(x: Tensor) -> Tensor:
    """An order of images (B, C, H, W) in which those of like brightness come together.

    The gates of what reads an image see the mean of each channel and no more, so images of like brightness want like
    filters, and what no image of a pass wants is not computed.
    """
    return x.flatten(1).sum(1).argsort(stable=True)


def open_trained(path: Path, objects: Objects = NOTHING) -> Trained:
    """The learner of the run folder or the model ``path``; a run's ``objects`` are given again."""
    if is_model(path):
        return trained_model(read_model(path))
    require_trained(path)
    learner, classes, experiment = load_alone(path, objects)

    def tests() -> tuple[Examples, ...]:
        return tuple(task.test for task in build_scenario(experiment, objects).tasks[: len(classes)])

    names = [" ".join(names) for names in classes]
    if len(set(names)) < len(names):  # tasks that share their classes
        names = [f"{name} ({t})" for t, name in enumerate(names)]
    return Trained(learner.eval, tuple(names), classes, tests, experiment.data)


def trained_model(model: Model) -> Trained:
    """The learner of a model that has been read: of the same end of a task, whatever has ended since."""
    prepare_process(model.experiment)
    names, classes = zip(*((task.name, task.classes) for task in model.tasks), strict=True)
    return Trained(
        model.learner,
        names,
        classes,
        lambda: tuple(task.test for task in model.probed()),
        model.experiment.data,
        keeps_tests=True,
    )
