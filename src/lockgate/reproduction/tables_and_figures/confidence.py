"""Supplement: task-incremental accuracy of HAT and ours over five seeds."""

from __future__ import annotations

from lockgate.reproduction.paper_numbers import CONFIDENCE
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, preset, with_task
from lockgate.reproduction.tables_and_figures.task_incremental import NARROW

ROWS = {"HAT": "hat", "ours": "ccgn"}


def lines(schedule: Schedule) -> list[Line]:
    """The paper's three data sets; on a short schedule also the embedded digits, which anyone can afford five of."""
    made = []
    for dataset, published in CONFIDENCE.items():
        for row, method in ROWS.items():
            mean, chosen = published[row], preset(schedule, method, dataset)
            made.append(Line(dataset, row, ("accuracy",), (mean.value,), chosen, with_task, stds=(mean.std,)))
    if schedule == "short":
        for row, method in ROWS.items():
            made.append(Line("digits", row, ("accuracy",), (None,), preset(schedule, method, "digits"), with_task))
    return made


TABLE = PaperTable(
    "confidence",
    "Task-incremental accuracy over five seeds",
    "Supplement, five runs",
    lines,
    seeds=5,
    notes={"cifar10": NARROW},
)
