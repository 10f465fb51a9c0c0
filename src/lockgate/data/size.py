"""How large a data set is, known before it is read: what a recipe may depend on, and a name may not.

Beside its reader, every data set of Lockgate's own has a function ``size(data_dir, config)``; official ones are
declared, so that no file is opened. Others are read once to be counted.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lockgate.config import DataConfig, ScenarioConfig
from lockgate.data import DATASETS, Reader
from lockgate.data.arrays import DataSize
from lockgate.errors import DataError


@dataclass(frozen=True)
class TaskSize:
    """What a recipe is fitted to."""

    images: int
    """Training images of a task, those held out not counted; the mean, where tasks differ."""
    side: int
    """The longer side of an image, in pixels."""


MIDDLE = DataSize(images_per_class=500, classes=10, side=32, channels=3)
"""Stands for what cannot be read: the run itself will say why."""


def size_of(dataset: str, data_dir: str | None, config: DataConfig) -> DataSize:
    """The size of a data set, by its name; a middle one where it cannot be read."""
    if dataset not in DATASETS:
        return MIDDLE
    folder, reader = None if data_dir is None else Path(data_dir), DATASETS[dataset]
    if not DATASETS.builtin(dataset):
        return _counted(reader, folder, config)
    declared: Callable[[Path | None, DataConfig], DataSize] = vars(sys.modules[reader.__module__])["size"]
    try:
        return declared(folder, config)
    except (DataError, OSError):  # no such folder, say
        return MIDDLE


def task_size(size: DataSize, tasks: int, scenario: ScenarioConfig) -> TaskSize:
    """The size of one of ``tasks`` tasks."""
    images = min(scenario.per_class or size.images_per_class, size.images_per_class)
    held_out = min(max(1, round(scenario.held_out * images)), images - 1)  # as ``scenario.split`` holds out
    classes = size.classes // tasks if scenario.kind == "classes" else size.classes
    return TaskSize(max(1, classes) * max(1, images - held_out), size.side)


@functools.lru_cache(maxsize=16)
def _counted(reader: Reader, data_dir: Path | None, config: DataConfig) -> DataSize:
    """The size of somebody's own data set, read and let go again."""
    try:
        found = reader(data_dir, config)
        channels, height, width = found.train.x.shape[1:]
        return DataSize(
            round(len(found.train.y) / len(found.classes)), len(found.classes), max(height, width), channels
        )
    except Exception:  # a stranger's code: whatever it is, the run meets it too and tells it with its place
        return MIDDLE
