"""Table 1: task-incremental results, the task given, on three data sets."""

from __future__ import annotations

from lockgate.reproduction.paper_numbers import TASK_INCREMENTAL
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, names, preset, task_by_task
from lockgate.reproduction.results import AVERAGE

ROWS = {
    "Joint (UB)": "joint",
    "finetune": "finetune",
    "EWC-On": "ewc-online",
    "LwF": "lwf",
    "HAT": "hat",
    "ours": "ccgn",
}
"""Rows in the paper's order; finetune, which it leaves out, shows what there is to forget."""

NARROW = "a ResNet-18 of a quarter of the paper's width, trained for 12 epochs a task instead of 200"
"""What the short schedule makes of CIFAR-10."""


def lines(schedule: Schedule) -> list[Line]:
    """A line for every method and data set."""
    columns = (*names(range(1, 6)), AVERAGE)
    return [
        Line(
            dataset,
            row,
            columns,
            published.get(row, (None,) * len(columns)),
            preset(schedule, method, dataset),
            task_by_task,
        )
        for dataset, published in TASK_INCREMENTAL.items()
        for row, method in ROWS.items()
    ]


TABLE = PaperTable(
    "task-incremental",
    "Task-incremental accuracy",
    "Table 1",
    lines,
    notes={
        "mnist": "EWC-On is stronger here than in the paper; its page (docs/methods/ewc_online.md) says why",
        "svhn": "LwF is much stronger here than in the paper, HAT a little weaker, and EWC-On suffers from AdamW, "
        "which all have here: docs/methods/lwf.md, hat.md and ewc_online.md",
        "cifar10": NARROW,
    },
)
