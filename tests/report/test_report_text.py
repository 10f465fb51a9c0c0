from __future__ import annotations

from lockgate.report import records, text, words


def test_the_matrix_has_a_row_per_stage_and_the_columns_line_up(make_run):
    summary = records.read(make_run()).summary
    lines = text.matrix_text(summary).splitlines()
    start = lines.index("Class-incremental accuracy")
    head, *rows, foot = lines[start + 1 : start + 6]
    assert head.split() == ["on", "1", "on", "2", "on", "3", "mean"]
    assert [row.split()[2:] for row in rows] == [
        ["0.990", "0.990"],
        ["0.812", "0.970", "0.891"],
        ["0.632", "0.754", "0.950", "0.779"],
    ]
    assert len({len(line) for line in (head, *rows)}) == 1
    assert foot == "average 0.779, forgetting 0.287, backward transfer -0.287"


def test_the_capacity_table_says_what_is_used_and_free(make_run):
    said = text.matrix_text(records.read(make_run()).summary)
    rows = [line.split() for line in said.splitlines()]
    assert ["conv1", "100", "12", "25", "37", "63"] in rows
    assert ["conv2", "80", "10", "10", "80", "0"] in rows
    assert "117 of 180 filters used (65.0 %)" in said


def test_a_mapping_is_read_like_a_file():
    given = {
        "method": "joint",
        "dataset": "mnist",
        "seed": 1,
        "tasks": 2,
        "seconds": 5,
        "task_incremental": {"matrix": [[0.9, 0.8]], "forgetting": 0.0},
    }
    said = text.matrix_text(given)
    assert said.startswith("joint on mnist, 2 tasks, seed 1: 0.850 average, all tasks learnt together")
    assert "after all  0.900  0.800  0.850" in said
    assert "forgetting" not in said


def test_nothing_forgotten_is_said_only_after_an_audit(make_run):
    def outcome(**changes):
        return words.outcome(records.read(make_run(**changes)).summary)

    kept = {"matrix": [[0.9], [0.9, 0.8]], "average": 0.85, "forgetting": 0.0}
    assert outcome() == "0.972 average, nothing forgotten: audit passed"
    assert outcome(audit={"ok": False}) == "0.972 average, audit FAILED"
    assert outcome(audit=None) == "0.972 average, no accuracy lost"
    assert outcome(audit=None, task_incremental=kept | {"forgetting": 0.1}) == "0.850 average, 0.100 forgotten"
    assert outcome(audit=None, task_incremental={"matrix": kept["matrix"]}) == "0.850 average"


def test_words():
    assert words.duration(59.94) == "59.9 s"
    assert words.duration(600) == "10 min"
    assert words.duration(2 * 3600 + 5 * 60) == "2 h 05 min"
    assert words.plural(1, "task") == "1 task"
    assert words.count(22755600) == "22,755,600"
    assert words.share(1, 0) == words.score(None) == words.change(None) == words.duration(None) == words.ABSENT
    assert words.change(-0.1) == "-0.100"
    assert words.change(-0.0001) == "0.000"
    assert words.mean((None, 0.5, 1.0)) == 0.75
    assert words.mean((None,)) is None
