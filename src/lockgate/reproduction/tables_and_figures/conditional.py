"""Supplement: generators of classes (C-Gen) against generators of tasks (ours)."""

from __future__ import annotations

from lockgate.reproduction.paper_numbers import CONDITIONAL
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule
from lockgate.reproduction.rows import LOCKGATE, PRINTED
from lockgate.reproduction.tables_and_figures.generative import SMALL_GANS, generated

ROWS = {"C-Gen": "C-Gen", PRINTED: "ours", LOCKGATE: None}
"""Rows, and what the paper calls them."""


def lines(schedule: Schedule) -> list[Line]:
    """A line for each on each data set, and on MNIST, which the paper leaves out."""
    return [
        generated(schedule, dataset, row, CONDITIONAL.get(dataset, {}).get(name) if name else None)
        for dataset in (*CONDITIONAL, "mnist")
        for row, name in ROWS.items()
    ]


TABLE = PaperTable(
    "conditional",
    "Generators of classes against generators of tasks",
    "Supplement, C-Gen",
    lines,
    notes=SMALL_GANS,
)
