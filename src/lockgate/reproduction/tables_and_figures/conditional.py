"""Supplement: generators of classes (C-Gen) against generators of tasks (ours)."""

from __future__ import annotations

from lockgate.reproduction.paper_numbers import CONDITIONAL
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, preset, without_task
from lockgate.reproduction.tables_and_figures.generative import SMALL_GANS

ROWS = {"C-Gen": "cgen", "ours": "ccgn-generative"}


def lines(schedule: Schedule) -> list[Line]:
    """A line for both on each data set, and on MNIST, which the paper leaves out."""
    return [
        Line(
            dataset,
            row,
            ("accuracy",),
            (CONDITIONAL.get(dataset, {}).get(row),),
            preset(schedule, method, dataset),
            without_task,
        )
        for dataset in (*CONDITIONAL, "mnist")
        for row, method in ROWS.items()
    ]


TABLE = PaperTable(
    "conditional",
    "Generators of classes against generators of tasks",
    "Supplement, C-Gen",
    lines,
    notes=SMALL_GANS,
)
