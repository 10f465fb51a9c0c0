"""Figure 4 and the supplement's table of it: accuracy without the task, by the capacity C of an episodic memory."""

from __future__ import annotations

from typing import Any

from lockgate.config import Experiment
from lockgate.reproduction.paper_numbers import BUFFERS, EPISODIC
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, preset, without_task

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "Full replay": ("full-replay", {}),
    "A-GEM": ("agem", {}),
    "iCaRL-rand": ("icarl", {"selection": "random"}),
    "iCaRL-mean": ("icarl", {"selection": "herding"}),
    "ours": ("ccgn-episodic", {}),
}

EPOCHS = {"svhn": 5}
"""Of the short schedule, where all rows have others than the preset's: rehearsal costs as much again as a task."""


def experiment(schedule: Schedule, method: str, dataset: str, options: dict[str, Any]) -> Experiment:
    """The experiment behind a number."""
    changes = {"epochs": EPOCHS[dataset]} if schedule == "short" and dataset in EPOCHS else {}
    return preset(schedule, method, dataset, options=options, **changes)


def lines(schedule: Schedule) -> list[Line]:
    """A line for every method, data set and capacity; full replay keeps everything, whatever C."""
    made = []
    for dataset, published in EPISODIC.items():
        for row, (method, options) in ROWS.items():
            for buffer, value in zip(BUFFERS, published[row], strict=True):
                kept = {} if method == "full-replay" else {"buffer": buffer}
                chosen = experiment(schedule, method, dataset, {**options, **kept})
                made.append(Line(dataset, row, (f"C = {buffer}",), (value,), chosen, without_task))
    return made


TABLE = PaperTable(
    "episodic",
    "Class-incremental accuracy by the size of an episodic memory",
    "Figure 4",
    lines,
    figure="lines",
    notes={
        "mnist": "iCaRL and A-GEM are stronger here than in the paper; docs/methods/icarl.md and agem.md say why",
        "svhn": "5 epochs a task where the paper has 800; whether more would do has not been tried",
    },
)
