"""Figure 6: which gates fire for which task, and images that trigger a gate or do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockgate.evaluation.gates import shares
from lockgate.report.schema import Summary
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, Values, preset


def _shares(_: Summary, found: Mapping[str, Any]) -> Values:
    return shares(found["firing"])


def lines(schedule: Schedule) -> list[Line]:
    """The paper shows MNIST's first layer and Imagenet-50's fifth residual block; it prints no numbers."""
    columns = ("gates that ever fire", "gates that fire for more than one task")
    return [
        Line(dataset, "ours", columns, (None, None), preset(schedule, "ccgn", dataset), _shares, "gates")
        for dataset in ("mnist", "imagenet50")
    ]


TABLE = PaperTable(
    "gates", "Which gates fire for which task", "Figure 6", lines, unit="share of gates", ranked=False, figure="gates"
)
