"""Figure 5 and the supplement's table of it: accuracy without the task, by what the memory costs."""

from __future__ import annotations

from typing import Any

from lockgate.reproduction.paper_numbers import BUDGET
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, preset, without_task_and_memory
from lockgate.reproduction.tables_and_figures.generative import SMALL_GANS

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"Em{n}": ("ccgn-episodic", {"buffer": size})
        # Em5 has as many bytes as the generators: 11,000 images of 32 x 32 x 3.
        for n, size in enumerate((500, 1000, 1500, 2000, 11000), 1)
    },
    "DGM": ("dgm", {"variant": "w"}),
    "Gm1": ("ccgn-generative", {}),
}


def lines(schedule: Schedule) -> list[Line]:
    """A line for every memory, on the paper's data sets and on MNIST, which it leaves out."""
    made = []
    for dataset in (*BUDGET, "mnist"):
        published = BUDGET.get(dataset, {})
        for row, (method, options) in ROWS.items():
            printed = published.get(row)
            if printed is None and dataset != "mnist":
                continue  # the paper has no DGM on CIFAR-10
            values = (None, None) if printed is None else (printed.accuracy, printed.mebibytes)
            chosen = preset(schedule, method, dataset, options=options)
            made.append(Line(dataset, row, ("accuracy", "MiB"), values, chosen, without_task_and_memory))
    return made


TABLE = PaperTable(
    "budget",
    "Class-incremental accuracy by what the memory costs",
    "Figure 5",
    lines,
    ranked=False,
    figure="scatter",
    notes=SMALL_GANS,
)
