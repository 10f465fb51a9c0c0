"""``lockgate learn``: one more task for a model, from what the user asked for and what the images say."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from lockgate.app import auto_config
from lockgate.app.describing import describe
from lockgate.app.model_dir import Model, ModelFolder, TaskInfo, is_model, learn_task, read_model
from lockgate.app.start import METHOD_OF_MEMORY, Start, choose
from lockgate.app.user_settings import UserSettings, checked
from lockgate.backbones.weights import lite0_installed
from lockgate.data.images import MOST_TOLD
from lockgate.data.preprocessing import Preprocessing
from lockgate.data.task_images import TaskImages
from lockgate.errors import ConfigError, DataError, RunFolderError
from lockgate.runs.build import anchored

LONGEST = 100
"""Letters of a task's name."""
PROBES = 32
"""Test images of each task that a model keeps, to prove that its answers have not changed."""


def learn(
    path: Path,
    task_images: TaskImages,
    name: str,
    settings: UserSettings,
    probes: int = PROBES,
    command: str = "lockgate learn",
    log: Callable[[str], None] = print,
    quiet: bool = False,
    known: Sequence[str] = (),
) -> Model:
    """Teach the model in ``path`` the task ``name``; the first task makes it. Choices are told through ``log``.

    ``known`` are the tasks that the caller knows the model to have learnt: where they are not, nothing is begun.
    """
    settings, probes = checked(settings), _checked_probes(probes)
    refuse_name(name)
    folder = ModelFolder(path)
    if known and not is_model(path):
        refuse_lost_tasks(path, known, ())
    with folder.held():
        model = read_model(path) if folder.end() else None
        refuse_lost_tasks(path, known, [task.name for task in model.tasks] if model else ())
        start: Start | None = None
        if model:
            auto_config.refuse_changes(settings, model.experiment)
            experiment = model.experiment
        else:
            stats = task_images.stats()
            start = choose(settings, stats, lite0_installed())
            experiment = anchored(auto_config.first(settings, stats, torch.get_num_threads(), start))
        _refuse_known(model, task_images, name, experiment.method == METHOD_OF_MEMORY["none"])
        data = task_images.read(Preprocessing.of(experiment.data))
        for line in _skipped(task_images):
            log(line)
        counts = tuple(np.bincount(data.y, minlength=len(task_images.classes)).tolist())
        share = experiment.scenario.held_out
        schedule = auto_config.for_task(experiment, settings, round(len(data.y) * (1 - share) ** 2))
        if not model:
            folder.write_config(experiment, command)
        for line in describe(schedule, name, task_images.classes, counts, probes, start):
            log(line)
        learn_task(
            model,
            folder,
            schedule,
            data,
            TaskInfo(name, task_images.classes, task_images.integers, counts),
            probes,
            quiet,
            log,
        )
        return read_model(path)


def refuse_name(name: str) -> None:
    """Raise for a name that could not be typed, shown on a line or told from a path."""
    bad = not name.strip() or name != name.strip() or not name.isprintable() or set(name) & set("/\\")
    if bad or len(name) > LONGEST:
        raise ConfigError(
            [
                f"'name' must be 1 to {LONGEST} letters, digits, signs or inner blanks, without '/' and '\\\\'. Got "
                f"{name!r} instead."
            ]
        )


def refuse_repeated(tasks: Sequence[tuple[str, TaskImages]]) -> None:
    """Raise if tasks that are to be learnt one after the other share a name or a class: before the first is learnt."""
    seen: dict[str, str] = {}
    names: set[str] = set()
    for name, task_images in tasks:
        refuse_name(name)
        if name in names:
            raise DataError(f"Two folders are called {name!r}; wanted a name for each task. Learn one of them alone.")
        names.add(name)
        for class_name in task_images.classes:
            if class_name in seen:
                raise DataError(
                    f"{class_name!r} is a class of {seen[class_name]!r} and of {name!r}; wanted it in one. "
                    "Leave it out of one, or give other names to what is something else."
                )
            seen[class_name] = name


def _skipped(task_images: TaskImages) -> list[str]:
    """What was left out, in words."""
    left_out: Sequence[str] = getattr(task_images, "skipped", ())
    if not left_out:
        return []
    more = [f"    and {len(left_out) - MOST_TOLD} more"] if len(left_out) > MOST_TOLD else []
    lines = [f"    {reason}" for reason in left_out[:MOST_TOLD]]
    return [f"  left out, because they cannot be read: {len(left_out)} images", *lines, *more]


def refuse_lost_tasks(path: Path, known: Sequence[str], now: Sequence[str]) -> None:
    """Raise if a model no longer has all the tasks it is ``known`` to have learnt: a new one would hide the loss."""
    lost = [name for name in known if name not in now]
    if not lost:
        return
    names = ", ".join(map(repr, lost))
    if not is_model(path):
        raise RunFolderError(
            f"The model in {path} is gone, and with it what it had learnt: {names}. Nothing was begun there. Put the "
            "folder back, or make a new model."
        )
    raise RunFolderError(
        f"The model in {path} has lost {names}: something else has changed or replaced it. Nothing was changed. Put "
        "the folder back, or open what is there now with `ContinualClassifier.load`."
    )


def _checked_probes(probes: int) -> int:
    if not isinstance(probes, numbers.Integral) or isinstance(probes, bool):
        raise ConfigError([f"'probes' must be a whole number. Got {probes!r} instead."])
    if probes < 0:
        raise ConfigError([f"'probes' must be at least 0. Got {probes} instead."])
    return int(probes)


def _refuse_known(model: Model | None, task_images: TaskImages, name: str, needs_task: bool) -> None:
    """What a model knows it cannot be taught again: the filters that know it are locked."""
    for task in model.tasks if model else ():
        again = [c for c in task_images.classes if c in task.classes]
        if again:
            raise DataError(
                f"The model knows {', '.join(map(repr, again))} already, from the task {task.name!r}. What it has "
                "learnt is locked, so that its answers can never change; it cannot be taught a class twice. Leave "
                "these classes out, or give other names to what is something else."
            )
        if task.name == name:
            raise DataError(f"The model knows a task called {name!r} already. Give this one another name (--name).")
    if len(task_images.classes) == 1 and (model is None or needs_task):
        raise DataError(
            f"There is one class, {task_images.classes[0]!r}; wanted at least two to tell apart. A single class can be "
            "taught as a later task of a model with a memory, which tells it from the tasks before."
        )
