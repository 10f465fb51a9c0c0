"""Beyond the paper: every method on the digits that are embedded in scikit-learn, which anyone can run five times."""

from __future__ import annotations

from typing import Any

from lockgate.reproduction.paper_table import (
    Line,
    PaperTable,
    Schedule,
    stored_svm,
    with_and_without_task,
    with_task,
)
from lockgate.reproduction.rows import (
    LOCKGATE,
    PRINTED,
    SVM,
    WITH_TASK,
    WITHOUT_TASK,
    equal,
    printed_row,
)
from lockgate.reproduction.tables_and_figures import episodic, generative, task_incremental

DATASET, STORED = "digits", 200
GIVEN, NOT_GIVEN = "digits", f"digits, no task given, C = {STORED}"
WITH, WITHOUT = ("task given",), ("no task given", "task given")
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "": (episodic.OURS, {"buffer": STORED}),
    ", generative": (generative.OURS, {}),
}
"""What stands behind the name of a row of ours without the task."""


def _rival(row: str, schedule: Schedule) -> Line:
    """A rival's line, without the task."""
    if row in episodic.ROWS:
        experiment = episodic.rival(schedule, row, DATASET, STORED)
    else:
        method, options = generative.ROWS[row]
        experiment = equal(schedule, method, DATASET, WITHOUT_TASK, options)
    return Line(NOT_GIVEN, row, WITHOUT, (None, None), experiment, with_and_without_task, judged=False)


def _printed(schedule: Schedule) -> list[Line]:
    """Ours, as printed."""
    how: dict[str, Any] = {"judged": False, "preset": "printed"}
    made = [Line(GIVEN, PRINTED, WITH, (None,), printed_row(schedule, "ccgn", DATASET), with_task, **how)]
    for what, (method, options) in OURS.items():
        experiment = printed_row(schedule, method, DATASET, options)
        made.append(Line(NOT_GIVEN, PRINTED + what, WITHOUT, (None, None), experiment, with_and_without_task, **how))
    return made


def lines(schedule: Schedule) -> list[Line]:
    """Every method, both settings; by the paper's schedule, which no other preset has for digits, as printed alone."""
    if schedule != "short":
        return _printed(schedule)
    given = {row: equal(schedule, method, DATASET, WITH_TASK) for row, method in task_incremental.ROWS.items()}
    own = given.pop(LOCKGATE)
    made = [Line(GIVEN, row, WITH, (None,), rival, with_task, judged=False) for row, rival in given.items()]
    made += [_rival(row, schedule) for row in (*episodic.ROWS, *generative.ROWS)]
    made += _printed(schedule)
    made.append(Line(GIVEN, LOCKGATE, WITH, (None,), own, with_task, judged=False))
    for what, (method, options) in OURS.items():
        own = equal(schedule, method, DATASET, WITHOUT_TASK, options)
        made.append(Line(NOT_GIVEN, LOCKGATE + what, WITHOUT, (None, None), own, with_and_without_task, judged=False))
    own = episodic.lockgate(schedule, DATASET, STORED)
    made.append(Line(NOT_GIVEN, SVM, WITHOUT[:1], (None,), own, stored_svm, judged=False))
    return made


TABLE = PaperTable("digits", "Every method on the embedded digits", "Beyond the paper", lines, seeds=5, ranked=False)
