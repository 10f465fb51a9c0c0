"""Figure 5 and the supplement's table of it: accuracy without the task, by what the memory costs."""

from __future__ import annotations

from lockgate.config import Experiment
from lockgate.reproduction.paper_numbers import BUDGET
from lockgate.reproduction.paper_table import (
    Line,
    PaperTable,
    Schedule,
    chance_without_task,
    without_task_and_memory,
)
from lockgate.reproduction.rows import LOCKGATE, WITHOUT_TASK, equal, printed_row
from lockgate.reproduction.tables_and_figures import episodic, generative
from lockgate.reproduction.tables_and_figures.generative import SMALL_GANS

IMAGES = {f"Em{n}": size for n, size in enumerate((500, 1000, 1500, 2000, 11000), 1)}
"""Em5 has as many bytes as the generators: 11,000 images of 32 x 32 x 3."""
COLUMNS = ("accuracy", "MiB")


def ours(schedule: Schedule, dataset: str, row: str) -> tuple[Experiment, Experiment]:
    """The two experiments of a memory of ours: as printed, and Lockgate's."""
    if row in IMAGES:
        printed = printed_row(schedule, episodic.OURS, dataset, {"buffer": IMAGES[row]})
        return printed, episodic.lockgate(schedule, dataset, IMAGES[row])
    own = equal(schedule, generative.OURS, dataset, WITHOUT_TASK)
    return printed_row(schedule, generative.OURS, dataset), own


def lines(schedule: Schedule) -> list[Line]:
    """A line for every memory, on the paper's data sets and on MNIST, which it leaves out; ours are as printed."""
    made = []
    for dataset in (*BUDGET, "mnist"):
        published = BUDGET.get(dataset, {})
        for row in (*IMAGES, "DGM", "Gm1"):
            paper = published.get(row)
            if paper is None and dataset != "mnist":
                continue  # the paper has no DGM on CIFAR-10
            values = (None, None) if paper is None else (paper.accuracy, paper.mebibytes)
            if row == "DGM":
                dgm = equal(schedule, "dgm", dataset, WITHOUT_TASK, {"variant": "w"})
                made.append(
                    Line(dataset, row, COLUMNS, values, dgm, without_task_and_memory, chance=chance_without_task)
                )
                continue
            printed, own = ours(schedule, dataset, row)
            made.append(Line(dataset, row, COLUMNS, values, printed, without_task_and_memory, preset="printed"))
            name = f"{LOCKGATE}, {row}"
            made.append(Line(dataset, name, COLUMNS, (None, None), own, without_task_and_memory, judged=False))
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
