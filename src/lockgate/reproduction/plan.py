"""Which runs a table needs, and which of them some folders hold already.

A run is known by its whole experiment, not by its name: finished ones are found in any folder of the root, whoever made
them, and one run serves every table that asks for it. Precision is part of an experiment, but a table takes a
finished run of any, full precision before others, and says which it took. A finished run counts only if it was made by
the present version of its method (``Method.version``): what older code learnt is not used.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml

from lockgate.app.experiment_file import over_preset
from lockgate.config import Experiment, Precision, leaves, nested
from lockgate.errors import LockgateError
from lockgate.methods import METHODS
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule
from lockgate.runs.build import experiment_from, validated
from lockgate.runs.directory import RunFolder, read_experiment


@dataclass(frozen=True)
class Job:
    """One run: what to do and where."""

    experiment: Experiment
    folder: Path
    schedule: Schedule
    """The preset that its command starts from."""

    @property
    def finished(self) -> bool:
        """Whether its summary is written."""
        return finished(self.folder)


def key(experiment: Experiment) -> str:
    """Everything that decides what a run learns today, as text: where and on what it runs is left out."""
    return _keys(experiment, (experiment.runtime.precision,))[0]


def _keys(experiment: Experiment, precisions: Iterable[Precision]) -> list[str]:
    """The key of the experiment computed in each of ``precisions``."""
    values = validated(experiment).to_dict()
    kept = {k: v for k, v in values.items() if k not in ("runtime", "data_dir")}
    kept["method_version"] = METHODS[experiment.method].version_of(values["options"])
    return [json.dumps({**kept, "precision": precision}, sort_keys=True) for precision in precisions]


FOLLOWED = (("backbone",), ("tasks", "scenario.", "data.", "data_dir"), ("optim.batch_size", "options."))
"""Names of settings, in the order in which a preset follows them: what comes later depends on what comes before."""
ALL = ("",)


def command(experiment: Experiment, schedule: Schedule) -> list[str]:
    """The words after `lockgate` that make this run: a preset, and a flag for whatever the rest would not make so."""
    flags: dict[str, Any] = {"method": experiment.method, "dataset": experiment.dataset}
    wanted = dict(leaves(validated(experiment).to_dict()))
    for names in itertools.chain(FOLLOWED, itertools.repeat(ALL)):
        made = dict(leaves(experiment_from(over_preset({**nested(flags), "preset": schedule})).to_dict()))
        new = {name: wanted[name] for name in wanted if name.startswith(names) and wanted[name] != made[name]}
        if names == ALL and not new:
            break
        flags |= new
    return ["run", schedule, *(word for name, value in flags.items() for word in (f"--{name}", _text(name, value)))]


def _text(name: str, value: Any) -> str:
    """A value as the command line reads it: as YAML, but for text that is not an option's."""
    if isinstance(value, str) and not name.startswith("options."):
        return value
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("\n...\n").strip()


def held(*places: Path, older: bool = False) -> dict[str, Path]:
    """The runs that stand in ``places``, by ``key``; of two alike, the first that is finished.

    Unfinished ones count in the first place only: in others, where results are kept, nothing is run. With ``older``,
    instead, the finished ones that do not count: of another version of their method, or written by hand.
    """
    found: dict[str, Path] = {}
    for config in (config for place in places for config in sorted(place.glob("*/config.yaml"))):
        folder = config.parent
        if not finished(folder) and (older or folder.parent != places[0]):
            continue
        try:
            experiment = read_experiment(config)
            known = key(experiment)
        except LockgateError:
            continue  # of another version of Lockgate, with options that are no more
        if finished(folder) and current(folder, experiment) == older:
            continue
        if known not in found or (finished(folder) and not finished(found[known])):
            found[known] = folder
    return found


def current(run: Path, experiment: Experiment) -> bool:
    """Whether the present version of its method wrote the summary of a finished run; one that has a note was copied."""
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    version = METHODS[experiment.method].version_of(validated(experiment).options)
    return "note" not in summary and summary.get("method_version") == version


def finished(run: Path) -> bool:
    """Whether the run's summary is written."""
    return (run / "summary.json").is_file()


def taken(known: Mapping[str, Path], line: Line, seed: int) -> Path | None:
    """The finished run that stands for ``line``: of its own precision, else of another.

    What the line needs of the model must be measured, or the model be there: of some runs only results are kept.
    """
    experiment = seeded(line, seed)
    for text in _keys(experiment, dict.fromkeys((experiment.runtime.precision, *get_args(Precision)))):
        run = known.get(text)
        if run is not None and finished(run) and (line.measure is None or _measurable(run, line.measure)):
            return run
    return None


def _measurable(run: Path, what: str) -> bool:
    return (run / f"{what}.json").is_file() or RunFolder(run).checkpoints.is_dir()


def computed_in(experiment: Experiment, precision: Precision) -> Experiment:
    """The experiment in another precision."""
    return dataclasses.replace(experiment, runtime=dataclasses.replace(experiment.runtime, precision=precision))


def seeded(line: Line, seed: int) -> Experiment:
    """The line's experiment with another seed."""
    return dataclasses.replace(line.experiment, seed=seed)


def jobs(
    lines: Iterable[Line], schedule: Schedule, seeds: int, *places: Path, precision: Precision = "32-true"
) -> list[Job]:
    """A job for every run that ``lines`` need, each once, in order; new ones in the first of ``places``."""
    known, begun, wanted = held(*places), held(places[0]), dict[Path, Job]()
    for line in lines:
        for seed in range(seeds):
            experiment, folder = seeded(line, seed), taken(known, line, seed)
            if folder is None:
                experiment = computed_in(experiment, precision)
                folder = begun.get(key(experiment), places[0] / folder_name(experiment))
            wanted.setdefault(folder, Job(experiment, folder, line.preset or schedule))
    return list(wanted.values())


def folder_name(experiment: Experiment) -> str:
    """A name that says what the run is, and differs from any other's; seeds of one experiment stand together."""
    digest = hashlib.sha256(key(dataclasses.replace(experiment, seed=0)).encode()).hexdigest()[:8]
    return f"{experiment.dataset}-{experiment.method}-{digest}-seed{experiment.seed}"


def chosen(
    paper_tables: Iterable[PaperTable], schedule: Schedule, only: tuple[str, ...]
) -> list[tuple[PaperTable, list[Line]]]:
    """The lines of each table; with ``only``, those of the groups, of the rows and of the columns that it names.

    Of two rows either will do; of a row and a column both must fit.
    """
    every = [(paper_table, paper_table.lines(schedule)) for paper_table in paper_tables]
    lines = [line for _, some in every for line in some]
    kinds = [set(only) & {name for line in lines for name in _names(line)[kind]} for kind in range(3)]
    if unknown := [name for name in only if not any(name in kind for kind in kinds)]:
        known = sorted({name for line in lines for kind in _names(line) for name in kind})
        raise LockgateError(f"There is nothing called {' or '.join(map(repr, unknown))}; there are {', '.join(known)}.")
    return [
        (
            paper_table,
            [line for line in some if all(not k or k & set(mine) for k, mine in zip(kinds, _names(line), strict=True))],
        )
        for paper_table, some in every
    ]


def _names(line: Line) -> tuple[tuple[str, ...], ...]:
    """What a line can be asked for by: its group, its row, its columns."""
    return (line.group,), (line.row,), line.columns
