"""Supplement: task-incremental accuracy of HAT and ours over five seeds."""

from __future__ import annotations

from lockgate.reproduction.paper_numbers import CONFIDENCE
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, chance_with_task, with_task
from lockgate.reproduction.rows import LOCKGATE, PRINTED, WITH_TASK, equal, printed_row
from lockgate.reproduction.tables_and_figures.task_incremental import NARROW


def lines(schedule: Schedule) -> list[Line]:
    """HAT and ours on the paper's three data sets."""
    made, column = [], ("accuracy",)
    for dataset, published in CONFIDENCE.items():
        hat, ours = published["HAT"], published["ours"]
        rival = equal(schedule, "hat", dataset, WITH_TASK)
        printed, own = printed_row(schedule, "ccgn", dataset), equal(schedule, "ccgn", dataset, WITH_TASK)
        made.append(
            Line(dataset, "HAT", column, (hat.value,), rival, with_task, stds=(hat.std,), chance=chance_with_task)
        )
        made.append(
            Line(dataset, PRINTED, column, (ours.value,), printed, with_task, stds=(ours.std,), preset="printed")
        )
        made.append(Line(dataset, LOCKGATE, column, (None,), own, with_task, judged=False))
    return made


TABLE = PaperTable(
    "confidence",
    "Task-incremental accuracy over five seeds",
    "Supplement, five runs",
    lines,
    seeds=5,
    notes={"cifar10": NARROW},
)
