"""What a table of the paper is made of: lines, each with an experiment, the paper's numbers and where ours are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lockgate.app.experiment_file import over_preset
from lockgate.config import Experiment
from lockgate.report.formatting import MIB, average
from lockgate.report.schema import Summary
from lockgate.reproduction.page import Kind
from lockgate.runs.build import experiment_from

Schedule = Literal["short", "paper", "printed"]
"""A preset. Tables are made by `short` and `paper`; the row *ours, as printed* starts from `printed` in both."""
Values = tuple[float | None, ...]
Read = Callable[[Summary, Mapping[str, Any]], Values]
"""Our numbers of a line, from a run's summary and what was measured on its model afterwards."""
Chance = Callable[[Summary], float | None]
"""The accuracy of guessing, from a run's summary."""


@dataclass(frozen=True)
class Line:
    """One experiment of a table and the numbers it gives; lines of one group and row share a row of the table."""

    group: str
    """The data set, or whatever else stands above a part of the table."""
    row: str
    columns: tuple[str, ...]
    paper: Values
    experiment: Experiment
    read: Read
    measure: Literal["macs", "gates"] | None = None
    """What has to be measured on the trained model, beyond what the run notes."""
    stds: Values = ()
    """The paper's standard deviations, where it prints any."""
    judged: bool = True
    """Whether the line counts in the verdict."""
    chance: Chance | None = None
    """Of its numbers, where they are accuracies."""
    preset: Schedule | None = None
    """The preset that its command starts from; None: that of the table's schedule."""


@dataclass(frozen=True)
class PaperTable:
    """A table or figure of the paper."""

    name: str
    title: str
    where: str
    """Where the paper has it."""
    lines: Callable[[Schedule], list[Line]]
    seeds: int = 1
    """How many seeds the table needs when nobody says."""
    unit: str = "accuracy"
    lower_is_better: bool = False
    ranked: bool = True
    """Whether the rows are baselines, so that their order means something."""
    figure: Kind | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    """Why the short schedule differs from the paper where it does, by group; under "", in any group."""


def preset(schedule: Schedule, method: str, dataset: str, **changes: Any) -> Experiment:
    """The experiment of a method on a data set by a schedule, as the command line has it with ``changes``."""
    return experiment_from(over_preset({"preset": schedule, "method": method, "dataset": dataset, **changes}))


def task_by_task(summary: Summary, _: Mapping[str, Any]) -> Values:
    """Final accuracy on each task, the task given, and their average."""
    return (*summary.task_incremental.matrix[-1], average(summary.task_incremental))


def with_task(summary: Summary, _: Mapping[str, Any]) -> Values:
    """Final average accuracy, the task given."""
    return (average(summary.task_incremental),)


def without_task(summary: Summary, _: Mapping[str, Any]) -> Values:
    """Final average accuracy, the task not given."""
    return (None if summary.class_incremental is None else average(summary.class_incremental),)


def without_task_and_memory(summary: Summary, _: Mapping[str, Any]) -> Values:
    """Final average accuracy, the task not given, and the MiB kept."""
    return (*without_task(summary, {}), None if summary.memory is None else summary.memory.bytes / MIB)


def with_and_without_task(summary: Summary, _: Mapping[str, Any]) -> Values:
    """Final average accuracy of one run, the task not given and given."""
    return (*without_task(summary, {}), *with_task(summary, {}))


def stored_svm(summary: Summary, _: Mapping[str, Any]) -> Values:
    """What an SVM on the images that the run kept has, the task not given: no network at all."""
    return (summary.svm,)


def chance_with_task(summary: Summary) -> float | None:
    """Guessing among the classes of the task, mean over tasks; None where the run does not name its classes."""
    sizes = [len(names) for names in summary.task_names if names]
    return sum(1 / size for size in sizes) / len(sizes) if sizes else None


def chance_without_task(summary: Summary) -> float | None:
    """Guessing among the classes of all tasks."""
    classes = sum(map(len, summary.task_names))
    return 1 / classes if classes else None


def measured(*keys: str) -> Read:
    """What was measured on the model, under ``keys``."""

    def read(_: Summary, found: Mapping[str, Any]) -> Values:
        value: Any = found
        for key in keys:
            value = value[key]
        return tuple(value)

    return read


def names(tasks: Sequence[int]) -> tuple[str, ...]:
    """T1, T2, ..."""
    return tuple(f"T{task}" for task in tasks)
