"""Ready-made experiments: one file of settings per preset and data set, `PRESET/DATASET.yaml`, to be read off.

A file has a group `all`, and a group for each method that has settings of its own, which override those of `all`. A
data set that has no file of its own takes the preset's `default.yaml`, where there is one. `source` names the file that
`lockgate select` chose its settings by: one path, or one for each method.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lockgate.config import Experiment, build, merge, read_yaml
from lockgate.errors import ConfigError
from lockgate.registry import Entry, Registry

Preset = Callable[[str, str], Experiment]
"""From the names of a method and a data set."""

FOLDER = Path(__file__).parent
SOURCE = "source"

PRESETS: Registry[Preset] = Registry(
    "preset",
    {
        "short": Entry(
            "lockgate.presets:short", "A few epochs a task, for CPUs; keeps free capacity for all tasks (default)."
        ),
        "paper": Entry("lockgate.presets:paper", "The paper's table of hyperparameters, for GPUs, with our seal."),
        "printed": Entry(
            "lockgate.presets:printed", "The paper to the letter, without anything of ours: it may forget."
        ),
    },
)


def short(method: str, dataset: str) -> Experiment:
    """A schedule of a few epochs a task: gates learn several times faster than the network, or they would not close."""
    return from_files("short", method, dataset)


def paper(method: str, dataset: str) -> Experiment:
    """The paper's schedule for one of its four data sets."""
    return from_files("paper", method, dataset)


def printed(method: str, dataset: str) -> Experiment:
    """The paper to the letter: its schedule and its method, no seal."""
    return from_files("printed", method, dataset)


def from_files(preset: str, method: str, dataset: str) -> Experiment:
    """The experiment that the files of ``preset`` describe."""
    folder = FOLDER / preset
    file = folder / f"{dataset}.yaml"
    if not file.is_file():
        file = folder / "default.yaml"
    if not file.is_file():
        known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml")))
        raise ConfigError([f"The preset {preset!r} has no schedule for {dataset!r}; it has for {known}. Use `short`."])
    settings = _read(file)
    values = merge(settings["all"], settings.get(method, {}))
    return build(Experiment, {**values, "method": method, "dataset": dataset})


def sources(preset: str) -> dict[str, str]:
    """For each file of ``preset`` that names one, by data set: where its settings come from."""
    found: dict[str, str] = {}
    for file in sorted((FOLDER / preset).glob("*.yaml")):
        source: Any = _read(file).get(SOURCE)
        if isinstance(source, Mapping):
            source = ", ".join(f"{path} ({method})" for method, path in source.items())
        if source is not None:
            found[file.stem] = str(source)
    return found


@functools.cache
def _read(file: Path) -> dict[str, dict[str, Any]]:
    return read_yaml(file)
