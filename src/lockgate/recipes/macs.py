"""Table 3: multiply-accumulates of inference, stage by stage, counted as the paper does."""

from __future__ import annotations

from lockgate.recipes.exhibit import Exhibit, Line, Schedule, measured, names, preset
from lockgate.recipes.task_incremental import experiment
from lockgate.report.paper import MACS

LEAVES_OUT_INPUTS = ("mnist",)
"""Where the paper's count leaves out the number of input channels: with SimpleCNN, not with ResNet-18."""


def lines(schedule: Schedule) -> list[Line]:
    """HAT and ours with the task given; ours with it not given, from the class-incremental run with C = 2000."""
    columns = names(range(1, 6))
    made = []
    for dataset, published in MACS.items():
        for row, values in published.items():
            given = row.endswith("task given") and "no task" not in row
            if given:
                chosen = experiment(schedule, "hat" if row.startswith("HAT") else "ccgn", dataset)
            else:
                chosen = preset(schedule, "ccgn-episodic", dataset, options={"buffer": 2000})
            kind = "task_incremental" if given else "class_incremental"
            if dataset not in LEAVES_OUT_INPUTS:
                made.append(Line(dataset, row, columns, values, chosen, measured(kind), "macs"))
                continue
            made.append(Line(dataset, row, columns, values, chosen, measured(f"{kind}_paper"), "macs"))
            made.append(Line(f"{dataset}, true count", row, columns, (None,) * 5, chosen, measured(kind), "macs"))
    return made


EXHIBIT = Exhibit(
    "macs",
    "Multiply-accumulates of inference, in millions",
    "Table 3",
    lines,
    unit="million MACs",
    lower_is_better=True,
)
