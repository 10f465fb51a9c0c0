"""Table 3: multiply-accumulates of inference, stage by stage, counted as the paper does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockgate.report.schema import Summary
from lockgate.reproduction.paper_numbers import DENSE_MACS, MACS
from lockgate.reproduction.paper_table import Line, PaperTable, Read, Schedule, Values, measured, names, preset

LEAVES_OUT_INPUTS = ("mnist",)
"""Where the paper's count leaves out the number of input channels: with SimpleCNN, not with ResNet-18."""


def lines(schedule: Schedule) -> list[Line]:
    """HAT and ours with the task given; ours with it not given, from the class-incremental run with C = 2000."""
    columns = names(range(1, 6))
    made = []
    for dataset, published in MACS.items():
        leaves_out = dataset in LEAVES_OUT_INPUTS
        chosen = preset(schedule, "ccgn", dataset)
        dense = (DENSE_MACS[dataset],) * len(columns)
        made.append(Line(dataset, "backbone", columns, dense, chosen, _dense(leaves_out), judged=False))
        for row, values in published.items():
            given = row.endswith("task given") and "no task" not in row
            if given:
                chosen = preset(schedule, "hat" if row.startswith("HAT") else "ccgn", dataset)
            else:
                chosen = preset(schedule, "ccgn-episodic", dataset, options={"buffer": 2000})
            kind = "task_incremental" if given else "class_incremental"
            if not leaves_out:
                made.append(Line(dataset, row, columns, values, chosen, measured(kind), "macs"))
                continue
            made.append(Line(dataset, row, columns, values, chosen, measured(f"{kind}_paper"), "macs"))
            made.append(Line(f"{dataset}, true count", row, columns, (None,) * 5, chosen, measured(kind), "macs"))
    return made


def _dense(leaves_out_inputs: bool) -> Read:
    def read(summary: Summary, _: Mapping[str, Any]) -> Values:
        found = [] if summary.macs is None else [both[leaves_out_inputs] for both in summary.macs.widths]
        return tuple(None if value is None else value / 1e6 for value in [*found, *[None] * (5 - len(found))])

    return read


TABLE = PaperTable(
    "macs",
    "Multiply-accumulates of inference, in millions",
    "Table 3",
    lines,
    unit="million MACs",
    lower_is_better=True,
    notes={
        "mnist": "in a few epochs gates close less than in the paper's 400; streams that tell classes apart open more",
        "cifar10": "a ResNet-18 that is 16 wide, trained for a few epochs; the paper's is 64 wide",
    },
)
