"""Figure 6: which gates fire for which task, and images that trigger a gate or do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockgate.evaluation.gates import shares
from lockgate.report.schema import Summary
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, Values
from lockgate.reproduction.rows import LOCKGATE, PRINTED, WITH_TASK, equal, printed_row


def _shares(_: Summary, found: Mapping[str, Any]) -> Values:
    return shares(found["firing"])


def lines(schedule: Schedule) -> list[Line]:
    """The paper shows MNIST's first layer and Imagenet-50's fifth residual block; it prints no numbers."""
    columns = ("gates that ever fire", "gates that fire for more than one task")
    made = []
    for dataset in ("mnist", "imagenet50"):
        printed, own = printed_row(schedule, "ccgn", dataset), equal(schedule, "ccgn", dataset, WITH_TASK)
        made.append(Line(dataset, PRINTED, columns, (None, None), printed, _shares, "gates", preset="printed"))
        made.append(Line(dataset, LOCKGATE, columns, (None, None), own, _shares, "gates", judged=False))
    return made


TABLE = PaperTable(
    "gates", "Which gates fire for which task", "Figure 6", lines, unit="share of gates", ranked=False, figure="gates"
)
