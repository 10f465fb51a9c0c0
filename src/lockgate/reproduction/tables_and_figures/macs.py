"""Table 3: multiply-accumulates of inference, stage by stage, counted as the paper does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockgate.config import Experiment
from lockgate.report.schema import Summary
from lockgate.reproduction.paper_numbers import DENSE_MACS, MACS
from lockgate.reproduction.paper_table import Line, PaperTable, Read, Schedule, Values, measured, names
from lockgate.reproduction.rows import LOCKGATE, PRINTED, WITH_TASK, equal, printed_row
from lockgate.reproduction.tables_and_figures import episodic

LEAVES_OUT_INPUTS = ("mnist",)
"""Where the paper's count leaves out the number of input channels: with SimpleCNN, not with ResNet-18."""
COLUMNS = names(range(1, 6))
NONE: Values = (None,) * len(COLUMNS)
STORED = 2000
"""Images kept by the class-incremental run."""


def lines(schedule: Schedule) -> list[Line]:
    """HAT and ours with the task given; ours with it not given, from the class-incremental run with C = 2000."""
    made = []
    for dataset, published in MACS.items():
        dense = (DENSE_MACS[dataset],) * len(COLUMNS)
        read = _dense(dataset in LEAVES_OUT_INPUTS)
        chosen = printed_row(schedule, "ccgn", dataset)
        made.append(Line(dataset, "backbone", COLUMNS, dense, chosen, read, judged=False, preset="printed"))
        hat = equal(schedule, "hat", dataset, WITH_TASK)
        made += _counted(dataset, "HAT", "task given", published["HAT, task given"], hat)
        for how in ("task given", "no task given"):
            printed, own = _ours(schedule, dataset, how)
            made += _counted(dataset, PRINTED, how, published[f"ours, {how}"], printed)
            made += _counted(dataset, LOCKGATE, how, NONE, own)
    return made


def _ours(schedule: Schedule, dataset: str, how: str) -> tuple[Experiment, Experiment]:
    """The two experiments of ours: as printed, and Lockgate's."""
    if how == "task given":
        return printed_row(schedule, "ccgn", dataset), equal(schedule, "ccgn", dataset, WITH_TASK)
    printed = printed_row(schedule, episodic.OURS, dataset, {"buffer": STORED})
    return printed, episodic.lockgate(schedule, dataset, STORED)


def _counted(dataset: str, row: str, how: str, paper: Values, experiment: Experiment) -> list[Line]:
    """The line of a row; where the paper's count leaves something out, the true one too."""
    kind = "task_incremental" if how == "task given" else "class_incremental"
    preset: Schedule | None = "printed" if row == PRINTED else None

    def line(group: str, values: Values, key: str) -> Line:
        name, judged = f"{row}, {how}", row != LOCKGATE
        return Line(group, name, COLUMNS, values, experiment, measured(key), "macs", judged=judged, preset=preset)

    if dataset not in LEAVES_OUT_INPUTS:
        return [line(dataset, paper, kind)]
    return [line(dataset, paper, f"{kind}_paper"), line(f"{dataset}, true count", NONE, kind)]


def _dense(leaves_out_inputs: bool) -> Read:
    def read(summary: Summary, _: Mapping[str, Any]) -> Values:
        found = [] if summary.macs is None else [both[leaves_out_inputs] for both in summary.macs.widths]
        return tuple(None if value is None else value / 1e6 for value in [*found, *[None] * (5 - len(found))])

    return read


TABLE = PaperTable(
    "macs",
    "Multiply-accumulates of inference, in millions",
    "Table 3",
    lines,
    unit="million MACs",
    lower_is_better=True,
    notes={"": "with fewer epochs than the paper's, gates close less"},
)
