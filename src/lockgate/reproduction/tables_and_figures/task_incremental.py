"""Table 1: task-incremental results, the task given, on three data sets."""

from __future__ import annotations

from lockgate.reproduction.paper_numbers import TASK_INCREMENTAL
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, Values, chance_with_task, names, task_by_task
from lockgate.reproduction.results import AVERAGE
from lockgate.reproduction.rows import LOCKGATE, PRINTED, WITH_TASK, equal, printed_row

ROWS = {
    "Joint (UB)": "joint",
    "finetune": "finetune",
    "EWC-On": "ewc-online",
    "LwF": "lwf",
    "HAT": "hat",
    LOCKGATE: "ccgn",
}
"""Rows but the printed one, in the paper's order; finetune, which it leaves out, shows what there is to forget."""

NARROW = "a ResNet-18 of a quarter of the paper's width, trained for a few epochs a task instead of 200"
"""What the short schedule makes of CIFAR-10."""


def lines(schedule: Schedule) -> list[Line]:
    """A line for every method and data set."""
    columns, made = (*names(range(1, 6)), AVERAGE), []
    none: Values = (None,) * len(columns)
    for dataset, published in TASK_INCREMENTAL.items():
        for row, method in ROWS.items():
            if row == LOCKGATE:
                printed = printed_row(schedule, method, dataset)
                made.append(Line(dataset, PRINTED, columns, published["ours"], printed, task_by_task, preset="printed"))
            made.append(
                Line(
                    dataset,
                    row,
                    columns,
                    published.get(row, none),
                    equal(schedule, method, dataset, WITH_TASK),
                    task_by_task,
                    judged=row in published,
                    chance=chance_with_task,
                )
            )
    return made


TABLE = PaperTable("task-incremental", "Task-incremental accuracy", "Table 1", lines, notes={"cifar10": NARROW})
