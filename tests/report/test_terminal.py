from __future__ import annotations

from dataclasses import replace

from lockgate.report import formatting, load, terminal


def test_the_matrix_has_a_row_per_stage_and_the_columns_line_up(make_run):
    summary = load.read(make_run()).summary
    lines = terminal.matrix_text(summary).splitlines()
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
    said = terminal.matrix_text(load.read(make_run()).summary)
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
    said = terminal.matrix_text(given)
    assert said.startswith("joint on mnist, 2 tasks, seed 1: 0.850 average, all tasks learnt together")
    assert "after all  0.900  0.800  0.850" in said
    assert "forgetting" not in said


def test_nothing_forgotten_is_said_only_after_an_audit(make_run):
    def outcome(**changes):
        return formatting.headline(load.read(make_run(**changes)).summary)

    kept = {"matrix": [[0.9], [0.9, 0.8]], "average": 0.85, "forgetting": 0.0}
    assert outcome() == "0.972 average, nothing forgotten: audit passed"
    assert outcome(audit={"ok": False}) == "0.972 average, audit FAILED"
    assert outcome(audit=None) == "0.972 average, no accuracy lost"
    assert outcome(audit=None, task_incremental=kept | {"forgetting": 0.1}) == "0.850 average, 0.100 forgotten"
    assert outcome(audit=None, task_incremental={"matrix": kept["matrix"]}) == "0.850 average"


def test_words():
    assert formatting.duration(59.94) == "59.9 s"
    assert formatting.duration(600) == "10 min"
    assert formatting.duration(2 * 3600 + 5 * 60) == "2 h 05 min"
    assert formatting.plural(1, "task") == "1 task"
    assert formatting.count(22755600) == "22,755,600"
    assert (
        formatting.share(1, 0)
        == formatting.score(None)
        == formatting.change(None)
        == formatting.duration(None)
        == formatting.ABSENT
    )
    assert formatting.change(-0.1) == "-0.100"
    assert formatting.change(-0.0001) == "0.000"
    assert formatting.mean((None, 0.5, 1.0)) == 0.75
    assert formatting.mean((None,)) is None


def test_a_method_that_finds_the_task_is_judged_by_that_first(make_episodic):
    def outcome(**changes):
        return formatting.headline(load.read(make_episodic(**changes)).summary)

    head = "0.779 class-incremental average; 0.972 with the task given"
    whole = f"{head}; right task 0.788; 500 images, 0.37 MiB kept; audit passed"
    assert outcome() == whole
    assert outcome(audit={"ok": False}) == whole.replace("passed", "FAILED")
    assert outcome(memory={"images": 0, "bytes": 33 * 2**20}).endswith("; generators, 33.00 MiB kept; audit passed")
    kept = {"images": 0, "bytes": 2**20, "statistics": 2**20}
    assert outcome(memory=kept).endswith("; statistics of classes, 1.00 MiB kept; audit passed")
    assert outcome(audit=None, memory=None, task_found=None) == head
    assert "nothing forgotten" not in whole  # the task classifier does change
    assert outcome(inference=None) == "0.972 average, nothing forgotten: audit passed"
    assert outcome(class_incremental=None) == "0.972 average, nothing forgotten: audit passed"


def test_how_the_task_was_found_follows_the_matrix(make_episodic):
    said = terminal.matrix_text(load.read(make_episodic()).summary)
    _, _, matrix, knowing, capacity = said.split("\n\n")
    assert matrix.startswith("Class-incremental accuracy")
    assert capacity.startswith("Filters in use")
    assert knowing.splitlines() == [
        "Knowing the task",
        "  inference: argmax 0.779, joint 0.788: joint wins by 0.010 (the matrix above is of argmax)",
        "  put into the right task at the end: 0.641 0.762 0.961, mean 0.788",
        "  memory kept: 500 images, 0.37 MiB",
        "  audit passed: 123 locked tensors, 9 sets of stream features and the logits of 3 tasks are the same, "
        "bit for bit",
    ]


def test_a_failed_audit_is_said_in_the_terminal(make_episodic):
    said = terminal.matrix_text(load.read(make_episodic(audit={"ok": False, "tensors": 2, "logits": 1})).summary)
    assert "  audit FAILED: 2 locked tensors and the logits of 1 task were compared, and something has changed" in said
    assert "bit for bit" not in said


def test_methods_that_are_given_the_task_say_nothing_about_finding_it(make_run):
    before = terminal.matrix_text(load.read(make_run()).summary)
    assert "Knowing the task" not in before
    found = [[1.0], [0.8, 0.9], [0.6, 0.7, 0.9]]
    assert terminal.matrix_text(load.read(make_run(task_found=found)).summary) == before


def test_no_kind_of_inference_wins_by_less_than_can_be_seen(make_episodic):
    def said(**averages):
        kinds = {kind: {"matrix": [[0.5]], "average": value} for kind, value in averages.items()}
        return formatting.kinds(load.read(make_episodic(inference=kinds)).summary)

    assert said(argmax=0.7, joint=0.7004) == "argmax 0.700, joint 0.700: no difference"
    assert said(argmax=0.75, joint=0.7) == "argmax 0.750, joint 0.700: argmax wins by 0.050"
    assert said(joint=0.7) == "joint 0.700"


def test_the_kind_that_answered_is_named_only_where_one_did(make_episodic):
    summary = load.read(make_episodic()).summary
    assert formatting.inference_used(summary) == "argmax"
    same = {"argmax": summary.inference["argmax"], "joint": summary.inference["argmax"]}
    assert formatting.inference_used(replace(summary, inference=same)) is None
    assert formatting.inference_used(replace(summary, class_incremental=summary.inference["joint"])) == "joint"


def test_sizes_are_in_mebibytes():
    assert formatting.mebibytes(500 * 784) == "0.37 MiB"
    assert formatting.mebibytes(12800) == "0.01 MiB"
    assert formatting.mebibytes(64) == "< 0.01 MiB"
    assert formatting.mebibytes(0) == "0.00 MiB"


def test_what_is_kept(make_episodic):
    def kept(**memory):
        return formatting.memory(load.read(make_episodic(memory=memory)).summary)

    assert kept(images=1, bytes=2**20) == "1 image, 1.00 MiB"
    assert kept(images=2000, bytes=2000 * 3072) == "2,000 images, 5.86 MiB"
    assert kept(images=0, bytes=34603008) == "generators, 33.00 MiB"
    assert kept(images=0, bytes=0) == "nothing, 0.00 MiB"


def test_no_class_incremental_number_stands_alone_where_images_are_kept(make_run):
    classes = {"matrix": [[0.9], [0.7, 0.8]], "average": 0.75, "average_incremental": 0.825, "forgetting": 0.2}
    lines = terminal.matrix_text(load.read(make_run(class_incremental=classes, svm=0.6543)).summary).splitlines()
    start = lines.index("Class-incremental accuracy")
    assert lines[start + 4] == "average 0.750, average incremental 0.825, forgetting 0.200"
    assert lines[start + 5] == "SVM on the stored images: 0.654"
    old = terminal.matrix_text(load.read(make_run()).summary)
    assert "SVM" not in old
    assert "incremental 0" not in old
