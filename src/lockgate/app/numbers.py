"""What a run has come to, in numbers: read from its folder, with no network loaded."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lockgate.config import Experiment
from lockgate.report.load import parse_summary
from lockgate.report.schema import Audit, Layer, Row, Scores, Summary
from lockgate.runs import checkpoint
from lockgate.runs.directory import RunFolder
from lockgate.runs.log import read_records
from lockgate.runs.summary import make_summary


class RunNumbers:
    """The numbers of a run, finished or not.

    A run that is not finished has what its ended tasks came to; before the first has ended, numbers are None or empty.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._folder = path, RunFolder(path)
        self.experiment: Experiment = self._folder.experiment()

    @property
    def finished(self) -> bool:
        """Whether the last task has ended."""
        return self._folder.summary.is_file()

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """The content of ``summary.json``; of a run that is not finished, the same as far as it got, or {}."""
        if self.finished:
            return self._folder.read_summary()
        end = checkpoint.newest_end(self._folder.checkpoints)
        if end is None or not any(record["event"] == "task" for record in self._records):
            return {}
        names = [list(classes) for classes in end.manifest()["meta"].get("classes", [])]
        return make_summary(self.experiment, names, self._records, self._folder.command(), {}, None)

    @functools.cached_property
    def _records(self) -> list[dict[str, Any]]:
        return read_records(self._folder.records)

    @functools.cached_property
    def _parsed(self) -> Summary | None:
        return parse_summary(self.summary, str(self.path)) if self.summary else None

    # -- numbers -----------------------------------------------------------------------------------------------------

    @property
    def accuracy(self) -> float | None:
        """Test accuracy, averaged over tasks: without the task given if the method can answer so, else with it."""
        scores = self.class_incremental or self.task_incremental
        return None if scores is None else scores.average

    @property
    def task_incremental(self) -> Scores | None:
        """Test accuracy with the task given: ``matrix``, ``average``, ``average_incremental``, ``backward_transfer``,
        ``forgetting``."""
        return self._parsed.task_incremental if self._parsed else None

    @property
    def class_incremental(self) -> Scores | None:
        """Test accuracy among all classes, the task not given; None where the method needs the task."""
        return self._parsed.class_incremental if self._parsed else None

    @property
    def history(self) -> list[dict[str, Any]]:
        """A flat row for each epoch and each task, in the order of events; ``pandas.DataFrame(result.history)``."""
        rows = [dict(_row(record)) for record in self._records]
        for kind in ("task_incremental", "class_incremental"):
            ends = [row for row in rows if kind in row]
            for stages, row in enumerate(ends, 1):
                row[f"{kind}.average_incremental"] = sum(end[kind] for end in ends[:stages]) / stages
        return rows

    @property
    def gates(self) -> Mapping[str, tuple[Row, ...]]:
        """By layer, a row for each task: for what share of its images each gate fires; {} without gates."""
        return self._parsed.gates if self._parsed else {}

    @property
    def capacity(self) -> tuple[Layer, ...]:
        """By layer: its width, the filters used after each task and those relevant to it; () where none are."""
        return self._parsed.capacity if self._parsed else ()

    @property
    def audit(self) -> Audit | None:
        """What the run's own audit found when its last task ended; ``lockgate.audit`` does it again, now."""
        return self._parsed.audit if self._parsed else None

    def __repr__(self) -> str:
        made, ended = self.experiment, sum(record["event"] == "task" for record in self._records)
        parts = [f"{made.method} on {made.dataset}", f"seed {made.seed}"]
        if not self.finished:
            parts.append(f"{ended} tasks of {made.tasks} learnt")
        for name, scores in (("task given", self.task_incremental), ("no task given", self.class_incremental)):
            if scores is not None and scores.average is not None:
                parts.append(f"{scores.average:.4f} {name}")
        if self._parsed is not None and self._parsed.svm is not None:
            parts.append(f"{self._parsed.svm:.4f} by an SVM on the stored images")
        if self.audit is not None:
            parts.append("audit passed" if self.audit.ok else "audit FAILED")
        return f"<{type(self).__name__} {self.path}: {', '.join(parts)}>"


def _row(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The plain values of a record; those of groups under ``group.name``, of accuracies under their task and average.

    What is a matter of its own (``gates``, ``capacity``, promises) has no place in a row.
    """
    for name, value in record.items():
        if name in ("task_incremental", "class_incremental", "task_found"):
            yield from _accuracies(name, value or ())
        elif name in ("losses", "memory") and value:
            yield from ((f"{name.removesuffix('es')}.{key}", item) for key, item in value.items())
        elif name == "audit" and value:
            yield "audit", value["ok"]
        elif not isinstance(value, (Mapping, list)) and value is not None:
            yield name, value


def _accuracies(name: str, row: Sequence[float]) -> Iterator[tuple[str, float]]:
    if row:
        yield name, sum(row) / len(row)
    yield from ((f"{name}.{task}", value) for task, value in enumerate(row))
