"""The run folder: one experiment, one process at a time, and never anybody else's files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lockgate.config import Experiment
from lockgate.errors import RunFolderError
from lockgate.runs.directory import RunFolder, write_atomically
from lockgate.runs.log import RunLog, read_records
from lockgate.runs.run import resume, run

Tiny = Callable[..., Experiment]
Tree = Callable[[Path], dict[str, str]]


def test_a_folder_that_holds_this_experiment_is_refused_with_the_way_to_continue(
    tiny: Tiny, finished: Path, tree: Tree
) -> None:
    before = tree(finished)
    with pytest.raises(RunFolderError, match=f"already holds this experiment.*lockgate resume {finished}"):
        run(tiny(), finished)
    assert tree(finished) == before


def test_a_folder_that_holds_another_experiment_is_refused_with_another_remedy(
    tiny: Tiny, finished: Path, tree: Tree
) -> None:
    before = tree(finished)
    with pytest.raises(RunFolderError, match="already holds another experiment; choose another --out"):
        run(tiny(seed=1), finished)
    assert tree(finished) == before


def test_a_folder_with_other_files_is_refused_and_an_empty_one_is_used(tiny: Tiny, tmp_path: Path) -> None:
    used, empty = tmp_path / "used", tmp_path / "empty"
    used.mkdir()
    (used / "thesis.txt").write_text("years of work")
    with pytest.raises(RunFolderError, match="not empty and not a run folder"):
        run(tiny(), used)
    assert [p.name for p in used.iterdir()] == ["thesis.txt"]
    empty.mkdir()
    RunFolder(empty).create(tiny(), "the command")
    assert RunFolder(empty).experiment() == tiny()
    assert RunFolder(empty).command() == "the command"


def test_a_place_that_cannot_be_written_is_refused_with_the_reason(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file" / "run", *([Path("/proc/lockgate/run")] if os.name == "posix" else [])):
        with pytest.raises(RunFolderError, match=f"Cannot write to {re.escape(str(place))}: .*Choose a folder you own"):
            run(tiny(), place)
    assert (tmp_path / "file").read_text() == "x"


def test_a_file_in_the_place_of_the_folder_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunFolderError, match="file"):
        run(tiny(), tmp_path / "file")


def test_a_folder_in_use_by_another_process_is_refused_until_it_is_free(stopped: Path, tree: Tree) -> None:
    fcntl = pytest.importorskip("fcntl", reason="this system locks files in another way")
    before = tree(stopped)
    with (stopped / ".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(RunFolderError, match="in use by another process"):
            resume(stopped)
        assert tree(stopped) == before
    resume(stopped)
    assert (stopped / "summary.json").is_file()


def test_a_finished_run_has_let_go_of_its_folder(tiny: Tiny, tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="this system locks files in another way")
    run(tiny(epochs=1), tmp_path / "run")
    with (tmp_path / "run" / ".lock").open() as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where somebody holds it


@pytest.mark.parametrize("text", ["tasks: [", "tsks: 3", "tasks: 0", "- 1"])
def test_a_broken_config_is_named_when_a_run_is_to_be_resumed(stopped: Path, text: str) -> None:
    (stopped / "config.yaml").write_text(text)
    with pytest.raises(RunFolderError, match=r"config\.yaml"):
        resume(stopped)


def test_the_config_in_the_folder_is_the_complete_experiment(tiny: Tiny, finished: Path) -> None:
    assert RunFolder(finished).experiment() == replace(tiny(), options={})


def test_a_run_without_a_summary_says_how_to_finish(stopped: Path) -> None:
    with pytest.raises(RunFolderError, match=f"lockgate resume {stopped}"):
        RunFolder(stopped).read_summary()


def test_a_summary_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_summary({"average": 0.1, "name": "ü"})
    assert folder.read_summary() == {"average": 0.1, "name": "ü"} == json.loads(folder.summary.read_text())


def test_a_file_is_replaced_whole_and_leaves_no_partial_behind(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old and much longer")
    (tmp_path / ".a.txt.partial").write_text("left by a killed process")
    write_atomically(file, "new")
    assert file.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_records_are_cut_to_the_length_of_the_checkpoint_by_the_first_rank_alone(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    nothing = {"records": 0}
    records = RunLog(path, nothing, active=True)
    assert (records.read(), records.meta()["records"]) == ([], 0)
    records.append({"n": 1})
    kept = records.meta()
    records.append({"n": "ü"})
    assert records.meta()["records"] == path.stat().st_size
    assert RunLog(path, nothing, active=False).read() == [{"n": 1}, {"n": "ü"}]
    RunLog(path, nothing, active=False).append({"n": 3})
    assert read_records(path) == [{"n": 1}, {"n": "ü"}]
    again = RunLog(path, kept, active=True)
    assert again.read() == [{"n": 1}]
    assert again.meta() == kept
    again.append({"n": "ü"})
    assert again.meta() == records.meta()


def test_what_a_killed_process_left_before_there_was_a_run_does_not_count(tiny: Tiny, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    (folder.path / ".config.yaml.partial").write_text("method: fine")
    folder.create(tiny(), "test")
    assert folder.experiment() == tiny()


def test_two_that_begin_at_once_do_not_get_the_same_folder(tiny: Tiny, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    with folder.lock(), pytest.raises(RunFolderError, match="in use by another process"):
        RunFolder(tmp_path / "run").create(tiny(), "test")
    assert not folder.config.exists()
