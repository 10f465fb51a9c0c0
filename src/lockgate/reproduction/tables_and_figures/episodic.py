"""Figure 4 and the supplement's table of it: accuracy without the task, by the capacity C of an episodic memory."""

from __future__ import annotations

from typing import Any

from lockgate.reproduction.paper_numbers import BUFFERS, EPISODIC
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, preset, without_task

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "Full replay": ("full-replay", {}),
    "A-GEM": ("agem", {}),
    "iCaRL-rand": ("icarl", {"selection": "random"}),
    "iCaRL-mean": ("icarl", {"selection": "herding"}),
    "ours": ("ccgn-episodic", {}),
}


def lines(schedule: Schedule) -> list[Line]:
    """A line for every method, data set and capacity; full replay keeps everything, whatever C."""
    made = []
    for dataset, published in EPISODIC.items():
        for row, (method, options) in ROWS.items():
            for buffer, value in zip(BUFFERS, published[row], strict=True):
                kept = {} if method == "full-replay" else {"buffer": buffer}
                chosen = preset(schedule, method, dataset, options={**options, **kept})
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
        "svhn": "8 epochs a task where the paper has 800; whether more would do has not been tried",
    },
)
