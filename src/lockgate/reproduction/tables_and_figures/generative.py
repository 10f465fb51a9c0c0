"""Table 2: accuracy without the task, rehearsed from generated images."""

from __future__ import annotations

from typing import Any

from lockgate.reproduction.paper_numbers import GENERATIVE
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, preset, without_task

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "DGMw": ("dgm", {"variant": "w"}),
    "DGMa": ("dgm", {"variant": "a"}),
    "ours": ("ccgn-generative", {}),
}


def lines(schedule: Schedule) -> list[Line]:
    """A line for every method and data set."""
    made = []
    for dataset, published in GENERATIVE.items():
        for row, (method, options) in ROWS.items():
            chosen = preset(schedule, method, dataset, options=options)
            made.append(Line(dataset, row, ("accuracy",), (published[row],), chosen, without_task))
    return made


SMALL_GANS = {"": "GANs of a quarter of the supplement's width, 1,000 iterations a task (the paper 200,000)"}
"""Why accuracies differ on the short schedule."""

TABLE = PaperTable(
    "generative", "Class-incremental accuracy with a generative memory", "Table 2", lines, notes=SMALL_GANS
)
