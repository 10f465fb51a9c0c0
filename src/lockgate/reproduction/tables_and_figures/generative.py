"""Table 2: accuracy without the task, rehearsed from generated images."""

from __future__ import annotations

from typing import Any

from lockgate.reproduction.paper_numbers import CONDITIONAL, GENERATIVE
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, chance_without_task, without_task
from lockgate.reproduction.rows import LOCKGATE, PRINTED, WITHOUT_TASK, equal, printed_row

OURS = "ccgn-generative"
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "DGMw": ("dgm", {"variant": "w"}),
    "DGMa": ("dgm", {"variant": "a"}),
    "C-Gen": ("cgen", {}),
}
"""Rivals; the last is the supplement's."""


def generated(schedule: Schedule, dataset: str, row: str, paper: float | None) -> Line:
    """The line of a rival, or of ours by either name."""
    if row == PRINTED:
        experiment = printed_row(schedule, OURS, dataset)
        return Line(dataset, row, ("accuracy",), (paper,), experiment, without_task, preset="printed")
    method, options = ROWS.get(row, (OURS, {}))
    experiment, judged = equal(schedule, method, dataset, WITHOUT_TASK, options), row in ROWS
    return Line(
        dataset, row, ("accuracy",), (paper,), experiment, without_task, judged=judged, chance=chance_without_task
    )


def lines(schedule: Schedule) -> list[Line]:
    """A line for every method and data set; C-Gen where the paper has it."""
    made = []
    for dataset, published in GENERATIVE.items():
        numbers = {**published, **CONDITIONAL.get(dataset, {}), PRINTED: published["ours"]}
        rows = [row for row in (*ROWS, PRINTED) if row in numbers]
        made += [generated(schedule, dataset, row, numbers[row]) for row in rows]
        made.append(generated(schedule, dataset, LOCKGATE, None))
    return made


SMALL_GANS = {"": "GANs of a fraction of the supplement's width and iterations (the paper: 200,000 a task)"}
"""Why accuracies differ on the short schedule."""

TABLE = PaperTable(
    "generative", "Class-incremental accuracy with a generative memory", "Table 2", lines, notes=SMALL_GANS
)
