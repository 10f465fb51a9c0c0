"""Figure 6: which gates fire for which task, and images that trigger a gate or do not."""

from __future__ import annotations

from lockgate.recipes.exhibit import Exhibit, Line, Schedule, measured
from lockgate.recipes.task_incremental import experiment


def lines(schedule: Schedule) -> list[Line]:
    """The paper shows MNIST's first layer and Imagenet-50's fifth residual block; it prints no numbers."""
    columns = ("gates that ever fire", "gates that fire for every task")
    return [
        Line(dataset, "ours", columns, (None, None), experiment(schedule, "ccgn", dataset), measured("shares"), "gates")
        for dataset in ("mnist", "imagenet50")
    ]


EXHIBIT = Exhibit(
    "gates", "Which gates fire for which task", "Figure 6", lines, unit="share of gates", ranked=False, figure="gates"
)
