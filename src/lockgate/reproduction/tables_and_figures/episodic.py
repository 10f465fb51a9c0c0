"""Figure 4 and the supplement's table of it: accuracy without the task, by the capacity C of an episodic memory.

Beside the paper's rows stand the rivals that it lacks, and what an SVM makes of the stored images without any network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockgate.config import Experiment
from lockgate.reproduction.paper_numbers import BUFFERS, EPISODIC
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, chance_without_task, stored_svm, without_task
from lockgate.reproduction.rows import LOCKGATE, PRINTED, SVM, WITHOUT_TASK, equal, printed_row

OURS = "ccgn-episodic"
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "Full replay": ("full-replay", {}),
    "A-GEM": ("agem", {}),
    "iCaRL-rand": ("icarl", {"selection": "random"}),
    "iCaRL-mean": ("icarl", {"selection": "herding"}),
    "ER": ("er", {}),
    "DER++": ("der++", {}),
    "ER-ACE": ("er-ace", {}),
    "GDumb": ("gdumb", {}),
}
"""Rivals."""


def rival(
    schedule: Schedule, row: str, dataset: str, buffer: int, scenario: Mapping[str, Any] | None = None
) -> Experiment:
    """The experiment of a rival with so many images; full replay keeps everything, whatever C."""
    method, options = ROWS[row]
    kept = {} if method == "full-replay" else {"buffer": buffer}
    return equal(schedule, method, dataset, WITHOUT_TASK, {**options, **kept}, scenario)


def lockgate(schedule: Schedule, dataset: str, buffer: int) -> Experiment:
    """Our own recipe with so many images."""
    return equal(schedule, OURS, dataset, WITHOUT_TASK, {"buffer": buffer})


def lines(schedule: Schedule) -> list[Line]:
    """A line for every method, data set and capacity."""
    made = []
    for dataset, published in EPISODIC.items():
        for index, buffer in enumerate(BUFFERS):
            column = (f"C = {buffer}",)
            for row in ROWS:
                paper = (published[row][index] if row in published else None,)
                chosen, judged = rival(schedule, row, dataset, buffer), row in published
                made.append(
                    Line(dataset, row, column, paper, chosen, without_task, judged=judged, chance=chance_without_task)
                )
            printed = printed_row(schedule, OURS, dataset, {"buffer": buffer})
            paper = (published["ours"][index],)
            made.append(Line(dataset, PRINTED, column, paper, printed, without_task, preset="printed"))
            own = lockgate(schedule, dataset, buffer)
            made.append(Line(dataset, LOCKGATE, column, (None,), own, without_task, judged=False))
            made.append(Line(dataset, SVM, column, (None,), own, stored_svm, judged=False))
    return made


TABLE = PaperTable(
    "episodic", "Class-incremental accuracy by the size of an episodic memory", "Figure 4", lines, figure="lines"
)
