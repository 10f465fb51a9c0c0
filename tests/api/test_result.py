"""A run read back as one object."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support import tiny

import lockgate
from lockgate.errors import CheckpointError, DataError, RunFolderError, UnknownNameError
from lockgate.evaluation.accuracy import class_incremental
from lockgate.runs.build import build_scenario

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> lockgate.Result:
    torch.set_num_threads(1)
    return lockgate.run(tiny.experiment("ccgn-episodic"), tmp_path_factory.mktemp("gated") / "run", quiet=True)


def test_its_numbers_are_those_of_the_summary(gated: lockgate.Result) -> None:
    summary = json.loads((gated.path / "summary.json").read_text())
    read = lockgate.load(str(gated.path))
    assert read.summary == gated.summary == summary
    assert read.accuracy == summary["class_incremental"]["average"]
    assert read.task_incremental is not None
    assert [list(row) for row in read.task_incremental.matrix] == summary["task_incremental"]["matrix"]
    assert {name: [list(row) for row in rows] for name, rows in read.gates.items()} == summary["gates"]
    assert [layer.name for layer in read.capacity] == [layer["layer"] for layer in summary["capacity"]["layers"]]
    assert read.audit is not None
    assert read.audit.ok
    assert read.finished
    assert lockgate.audit(gated.path).ok


def test_a_method_that_needs_the_task_is_judged_with_it(tmp_path: Path) -> None:
    result = lockgate.run(tiny.experiment("ccgn"), tmp_path / "run", quiet=True)
    assert result.class_incremental is None
    assert result.accuracy == result.summary["task_incremental"]["average"]
    x = np.zeros((2, 3, 16, 16), np.uint8)
    with pytest.raises(UnknownNameError, match="No task was given"):
        result.predict(x)
    assert set(result.predict(x, task=1)) <= {"class 2", "class 3"}


def test_its_history_is_flat_rows_of_plain_values(gated: lockgate.Result) -> None:
    rows = gated.history
    assert {row["event"] for row in rows} >= {"epoch", "task"}
    assert all(isinstance(value, (str, int, float, bool)) for row in rows for value in row.values())
    epochs = [(row["task"], row["epoch"]) for row in rows if row["event"] == "epoch"]
    assert epochs == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all("loss.class" in row and "val_accuracy" in row for row in rows if row["event"] == "epoch")
    last = [row for row in rows if row["event"] == "task"][-1]
    assert last["class_incremental"] == gated.accuracy
    assert [last["class_incremental.0"], last["class_incremental.1"]] == gated.summary["class_incremental"]["matrix"][
        -1
    ]
    averages = [row["class_incremental"] for row in rows if row["event"] == "task"]
    assert last["class_incremental.average_incremental"] == sum(averages) / len(averages)
    assert gated.class_incremental is not None
    assert gated.class_incremental.average_incremental == last["class_incremental.average_incremental"]
    assert last["svm"] == gated.summary["svm"]
    assert f"{gated.summary['svm']:.4f} by an SVM on the stored images" in repr(gated)
    assert last["memory.images"] == gated.summary["memory"]["images"]
    assert last["audit"] is True


def test_pandas_takes_the_history(gated: lockgate.Result) -> None:
    pandas = pytest.importorskip("pandas")
    assert len(pandas.DataFrame(gated.history)) == len(gated.history)


def test_it_answers_as_the_run_was_tested(gated: lockgate.Result) -> None:
    tasks = build_scenario(gated.experiment).tasks
    names = np.array([f"class {c}" for c in range(4)])
    rows = []
    for task in tasks:
        wanted = names[np.array(task.classes)[task.test.y.numpy()]]
        rows.append(float((gated.predict(task.test.x) == wanted).mean()))
        nhwc = task.test.x.permute(0, 2, 3, 1).numpy()
        assert (gated.predict(nhwc) == gated.predict(task.test.x)).all()
        given = gated.predict_proba(task.test.x, task.id)
        assert given[:, [c for c in range(4) if c not in task.classes]].max() == 0
        assert np.allclose(given.sum(1), 1)
    assert rows == pytest.approx(class_incremental(gated.method, tasks))
    with pytest.raises(DataError, match=r"\(3, 8, 8\); wanted \(3, 16, 16\)"):
        gated.predict(np.zeros((1, 8, 8, 3), np.uint8))


def test_its_repr_says_what_came_out(gated: lockgate.Result, stopped: Path) -> None:
    assert repr(gated).startswith(f"<Result {gated.path}: ccgn-episodic on synthetic, seed 0, ")
    assert "audit passed" in repr(gated)
    assert "1 tasks of 2 learnt" in repr(lockgate.load(stopped))


def test_a_run_that_is_not_finished_has_what_its_ended_tasks_came_to(stopped: Path, finished: Path) -> None:
    half, whole = lockgate.load(stopped), lockgate.load(finished)
    assert not half.finished
    assert half.task_incremental is not None
    assert whole.task_incremental is not None
    assert half.task_incremental.matrix == whole.task_incremental.matrix[:1]
    assert half.summary["task_names"] == whole.summary["task_names"]
    assert len(half.method.heads) == 1
    shutil.rmtree(stopped / "checkpoints")
    (stopped / "records.jsonl").unlink()
    begun = lockgate.load(stopped)
    assert (begun.accuracy, begun.summary, begun.history, begun.capacity, begun.audit) == (None, {}, [], (), None)
    assert "0 tasks of 2 learnt" in repr(begun)
    with pytest.raises(CheckpointError, match="has not finished a task yet"):
        _ = begun.method


def test_loading_reads_no_data_and_leaves_threads_and_random_numbers_alone(finished: Path) -> None:
    torch.set_num_threads(2)
    before = torch.get_rng_state()
    lockgate.load(finished).predict(np.zeros((1, 16, 16, 3), np.uint8))
    assert torch.get_num_threads() == 2
    assert torch.equal(before, torch.get_rng_state())


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"no config\.yaml"):
        lockgate.load(tmp_path)


@pytest.mark.parametrize("name", sorted(path.parent.name for path in RESULTS.glob("*/summary.json"))[::12])
def test_the_results_kept_here_can_be_loaded(name: str) -> None:
    result = lockgate.load(RESULTS / name)
    assert result.accuracy is not None
    assert result.experiment.method in repr(result)
