"""Numbers of a table from real but tiny runs: what guessing comes to, and what the printed method forgets."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import tiny

from lockgate.report import load
from lockgate.reproduction.paper_table import (
    Line,
    PaperTable,
    chance_with_task,
    chance_without_task,
    stored_svm,
    with_task,
    without_task,
)
from lockgate.reproduction.plan import held
from lockgate.reproduction.write import gather
from lockgate.runs.run import run


def test_chance_forgetting_and_the_svm_are_read_off_the_runs(tmp_path: Path) -> None:
    printed = tiny.experiment("ccgn", options={"seal": False})
    own, rival = tiny.experiment("ccgn-episodic"), tiny.experiment("er")
    for name, experiment in (("printed", printed), ("own", own), ("rival", rival)):
        run(experiment, tmp_path / name)
    lines = [
        Line("given", "ours, as printed", ("avg",), (0.9,), printed, with_task, preset="printed"),
        Line("given", "ER", ("avg",), (0.8,), rival, with_task, chance=chance_with_task),
        Line("not given", "ER", ("avg",), (0.8,), rival, without_task, chance=chance_without_task),
        Line("not given", "Lockgate", ("avg",), (None,), own, without_task, judged=False),
        Line("not given", "SVM on the stored images", ("avg",), (None,), own, stored_svm, judged=False),
        Line("not given", "absent", ("avg",), (0.8,), tiny.experiment("gdumb"), without_task, judged=False),
    ]
    table = PaperTable("small", "A small table", "Figure 0", lambda _: lines)
    result = gather(table, "short", lines, 1, held(tmp_path), print)
    rows = {(row.group, row.name): row for row in result.rows}
    summary = load.read(tmp_path / "printed").summary
    assert rows["given", "ours, as printed"].forgetting == (summary.task_incremental.forgetting,)
    assert rows["given", "ER"].forgetting == ()
    assert rows["given", "ER"].numbers["avg"].chance == 0.5
    assert rows["not given", "ER"].numbers["avg"].chance == 1 / sum(map(len, summary.task_names))
    svm = load.read(tmp_path / "own").summary.svm
    assert svm is not None
    assert rows["not given", "SVM on the stored images"].numbers["avg"].mean == pytest.approx(svm)
    assert rows["not given", "absent"].numbers["avg"].mean is None
    assert result.remarks("given")[0].startswith("Ours, as printed forgets ")
