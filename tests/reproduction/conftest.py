"""A small table of real but tiny runs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import tiny

from lockgate.reproduction.paper_table import Line, PaperTable, Schedule, without_task


def _lines(schedule: Schedule) -> list[Line]:
    made = []
    for row, method, epochs in (("Full replay", "full-replay", 1), ("ours", "ccgn-episodic", 2)):
        for buffer, value in ((10, 0.9), (20, 0.95)):
            options: dict[str, Any] = {} if method == "full-replay" else {"options": {"buffer": buffer}}
            experiment = tiny.experiment(method, epochs=epochs, **options)
            made.append(Line("synthetic", row, (f"C = {buffer}",), (value,), experiment, without_task))
    return made


@pytest.fixture
def paper_table() -> PaperTable:
    return PaperTable("small", "A small table", "Figure 0", _lines, figure="lines")
