"""``lockgate learn``: one more lesson for a model, from what the owner said and what the images say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from lockgate.app import auto_config
from lockgate.app.auto_config import UserSettings
from lockgate.app.model_dir import Model, ModelFolder, TaskInfo, learn_task, read_model
from lockgate.data.task_images import TaskImages
from lockgate.errors import ConfigError, DataError

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
) -> Model:
    """Teach the model in ``path`` the task ``name``; the first lesson makes it. Choices are told through ``say``."""
    if probes < 0:
        raise ConfigError([f"'probes' must be at least 0. Got {probes} instead."])
    folder = ModelFolder(path)
    with folder.held():
        model = read_model(path) if folder.end() else None
        if model:
            auto_config.refuse_changes(settings, model.experiment)
            experiment = model.experiment
        else:
            experiment = auto_config.first(settings, task_images.stats(), torch.get_num_threads())
        _refuse_known(model, task_images, name, experiment.method == auto_config.METHODS["none"])
        data = task_images.read(experiment.data.image_size, experiment.data.greyscale)
        counts = tuple(np.bincount(data.y, minlength=len(task_images.classes)).tolist())
        share = experiment.scenario.held_out
        schedule = auto_config.for_task(experiment, settings, round(len(data.y) * (1 - share) ** 2))
        if not model:
            folder.write_config(experiment, command)
        for line in auto_config.describe(schedule, name, task_images.classes, counts, probes, first=model is None):
            log(line)
        learn_task(
            model,
            folder,
            schedule,
            data,
            TaskInfo(name, task_images.classes, task_images.integers, counts),
            probes,
            quiet,
        )
        return read_model(path)


def _refuse_known(model: Model | None, task_images: TaskImages, name: str, needs_task: bool) -> None:
    """What a model knows it cannot be taught again: the filters that know it are locked."""
    for task in model.tasks if model else ():
        again = [c for c in task_images.classes if c in task.classes]
        if again:
            raise DataError(
                f"The model knows {', '.join(map(repr, again))} already, from the task {task.name!r}. What it has "
                "learnt is locked, so that its answers can never change; it cannot be taught a class twice. Leave "
                "these folders out, or give other names to what is something else."
            )
        if task.name == name:
            raise DataError(f"The model knows a task called {name!r} already. Give this one another name (--name).")
    if len(task_images.classes) == 1 and (model is None or needs_task):
        raise DataError(
            f"There is one class, {task_images.classes[0]!r}; wanted at least two to tell apart. A single class can be "
            "taught as a later task of a model with a memory, which tells it from the tasks before."
        )
