"""Which runs an exhibit needs, and which of them a folder holds already.

A run is known by its whole experiment, not by its name: finished ones are found wherever they stand under the root,
whoever made them, and one run serves every exhibit that asks for it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lockgate.config import Experiment, build, read_yaml
from lockgate.engine.setup import validated
from lockgate.errors import LockgateError
from lockgate.recipes.exhibit import Exhibit, Line, Schedule
from lockgate.recipes.presets import paper, short


@dataclass(frozen=True)
class Job:
    """One run: what to do and where."""

    experiment: Experiment
    folder: Path
    schedule: Schedule

    @property
    def finished(self) -> bool:
        """Whether its summary is written."""
        return (self.folder / "summary.json").is_file()


def key(experiment: Experiment) -> str:
    """Everything that decides what a run learns, as text: where and on what it runs is left out."""
    values = validated(experiment).to_dict()
    kept = {k: v for k, v in values.items() if k not in ("runtime", "data_dir")}
    return json.dumps({**kept, "precision": experiment.runtime.precision}, sort_keys=True)


def command(experiment: Experiment, schedule: Schedule) -> list[str]:
    """The words after `lockgate` that make this run: a recipe, and a flag for whatever differs from it."""
    base = {"short": short, "paper": paper}[schedule](experiment.method, experiment.dataset).to_dict()
    words = ["run", schedule, "--method", experiment.method, "--dataset", experiment.dataset]
    for name, value in _leaves(experiment.to_dict()):
        if value != dict(_leaves(base)).get(name):
            words += [f"--{name}", yaml.safe_dump(value, default_flow_style=True).removesuffix("\n...\n").strip()]
    return words


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def held(root: Path) -> dict[str, Path]:
    """The runs under ``root``, finished or not, by ``key``; of two alike, the finished one."""
    found: dict[str, Path] = {}
    for config in sorted(root.glob("*/config.yaml")):
        try:
            known = key(build(Experiment, read_yaml(config)))
        except LockgateError:
            continue  # of another version of Lockgate, with options that are no more
        if known not in found or (config.parent / "summary.json").is_file():
            found[known] = config.parent
    return found


def seeded(line: Line, seed: int) -> Experiment:
    """The line's experiment with another seed."""
    return dataclasses.replace(line.experiment, seed=seed)


def jobs(lines: Iterable[Line], schedule: Schedule, seeds: int, root: Path) -> list[Job]:
    """A job for every run that ``lines`` need, each once, in order."""
    known, wanted = held(root), dict[str, Job]()
    for line in lines:
        for seed in range(seeds):
            experiment = seeded(line, seed)
            identity = key(experiment)
            if identity not in wanted:
                folder = known.get(identity, root / folder_name(experiment))
                wanted[identity] = Job(experiment, folder, schedule)
    return list(wanted.values())


def folder_name(experiment: Experiment) -> str:
    """A name that says what the run is, and differs from any other's; seeds of one experiment stand together."""
    digest = hashlib.sha256(key(dataclasses.replace(experiment, seed=0)).encode()).hexdigest()[:8]
    return f"{experiment.dataset}-{experiment.method}-{digest}-seed{experiment.seed}"


def chosen(exhibits: Iterable[Exhibit], schedule: Schedule, only: tuple[str, ...]) -> list[tuple[Exhibit, list[Line]]]:
    """The lines of each exhibit; with ``only``, those whose group or row is named there."""
    every = [(exhibit, exhibit.lines(schedule)) for exhibit in exhibits]
    known = sorted({name for _, lines in every for line in lines for name in (line.group, line.row)})
    if unknown := [name for name in only if name not in known]:
        raise LockgateError(f"There is nothing called {' or '.join(map(repr, unknown))}; there are {', '.join(known)}.")
    if not only:
        return every
    return [(exhibit, [line for line in lines if {line.group, line.row} & set(only)]) for exhibit, lines in every]
