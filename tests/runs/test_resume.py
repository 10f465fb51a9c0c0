"""A stopped run goes on to the same bits; a damaged one is refused, named, and left as it is."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from lockgate.errors import CheckpointError, LockgateError, RunFolderError, TrainingError
from lockgate.methods import METHODS
from lockgate.runs.directory import read_experiment
from lockgate.runs.loading import load
from lockgate.runs.run import resume

Tree = Callable[[Path], dict[str, str]]
Bits = Callable[[Path], bytes]
DAMAGEABLE = ["learner.safetensors", "best.safetensors", "optimiser.pt", "manifest.json"]


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def records(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "test_seconds")} for line in lines]


def set_optim(out: Path, **changes: Any) -> None:
    values = yaml.safe_load((out / "config.yaml").read_text())
    values["optim"].update(changes)
    (out / "config.yaml").write_text("# edited by hand\n" + yaml.safe_dump(values))


def test_a_stopped_run_ends_where_the_whole_one_did(finished: Path, stopped: Path, last_bits: Bits) -> None:
    summary = resume(stopped)
    assert last_bits(stopped) == last_bits(finished)
    assert records(stopped) == records(finished)
    whole = json.loads((finished / "summary.json").read_text())
    for key in ("task_incremental", "class_incremental", "macs", "task_names"):
        assert summary[key] == whole[key]


def test_records_written_after_the_checkpoint_are_cut_and_written_again(finished: Path, stopped: Path) -> None:
    with (stopped / "records.jsonl").open("a") as file:
        file.write('{"event": "task", "task": 1, "this": "was never checkpointed"}\n{"event": "half of a li')
    resume(stopped)
    assert records(stopped) == records(finished)


def test_resuming_a_finished_run_trains_nothing_and_says_the_same(finished: Path, tree: Tree) -> None:
    before, said = tree(finished), json.loads((finished / "summary.json").read_text())
    summary = resume(finished)
    after = tree(finished)
    assert summary == said
    assert {k: v for k, v in after.items() if k != "summary.json"} == {
        k: v for k, v in before.items() if k != "summary.json"
    }


def test_a_run_without_a_checkpoint_starts_from_the_beginning(finished: Path, stopped: Path, last_bits: Bits) -> None:
    shutil.rmtree(stopped / "checkpoints")
    resume(stopped)
    assert last_bits(stopped) == last_bits(finished)
    assert records(stopped) == records(finished)


@pytest.mark.parametrize("name", DAMAGEABLE)
def test_a_flipped_bit_is_refused_by_name_nothing_changes_and_the_previous_checkpoint_works(
    finished: Path, stopped: Path, tree: Tree, last_bits: Bits, name: str
) -> None:
    damaged = stopped / "checkpoints" / "000005-fit" / name
    flip(damaged)
    before = tree(stopped)
    with pytest.raises(CheckpointError, match="--previous") as caught:
        resume(stopped)
    assert str(damaged) in str(caught.value)
    assert tree(stopped) == before
    resume(stopped, previous=True)
    assert last_bits(stopped) == last_bits(finished)
    assert records(stopped) == records(finished)


def test_a_damaged_end_of_the_task_before_is_noticed_from_inside_the_next(stopped: Path, tree: Tree) -> None:
    damaged = stopped / "checkpoints" / "000003-task" / "learner.safetensors"
    flip(damaged)
    before = tree(stopped)
    with pytest.raises(CheckpointError, match="damaged") as caught:
        resume(stopped)
    assert str(damaged) in str(caught.value)
    assert tree(stopped) == before


def test_a_damaged_newest_end_of_a_finished_run_is_refused_and_can_be_made_again(
    finished: Path, tree: Tree, last_bits: Bits
) -> None:
    good = last_bits(finished)
    flip(finished / "checkpoints" / "000006-task" / "learner.safetensors")
    before = tree(finished)
    for use in (resume, load):
        with pytest.raises(CheckpointError, match=r"000006-task/learner\.safetensors"):
            use(finished)
    assert tree(finished) == before
    resume(finished, previous=True)
    assert last_bits(finished) == good


def test_there_must_be_a_previous_checkpoint_to_go_back_to(stopped: Path, tree: Tree) -> None:
    shutil.rmtree(stopped / "checkpoints" / "000003-task")
    before = tree(stopped)
    with pytest.raises(CheckpointError, match="no whole checkpoint before the newest"):
        resume(stopped, previous=True)
    assert tree(stopped) == before


class Bomb:
    """Unpickling this touches a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return os.mkdir, (str(self.target),)


def plant(stopped: Path, sign: Callable[[Path], None], how: str) -> Path:
    """Replace optimiser.pt by code to be run, with a manifest that fits; returns what the code would make."""
    point, target = stopped / "checkpoints" / "000005-fit", stopped.parent / "exploded"
    if how == "zip":
        torch.save({"state": Bomb(target), "param_groups": []}, point / "optimiser.pt")
    else:
        (point / "optimiser.pt").write_bytes(pickle.dumps(Bomb(target)))
    sign(point)
    return target


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("how", ["zip", "bare pickle"])
def test_code_in_an_optimiser_state_is_refused_and_never_run(stopped: Path, sign: Any, how: str) -> None:
    target = plant(stopped, sign, how)
    with pytest.raises((CheckpointError, pickle.UnpicklingError)):
        resume(stopped)
    assert not target.exists()
    with contextlib.suppress(RuntimeError):  # after the fact
        torch.load(stopped / "checkpoints" / "000005-fit" / "optimiser.pt", weights_only=False)
    assert target.exists(), "the bomb was no bomb, so the test showed nothing"


def test_an_optimiser_state_that_cannot_be_read_safely_is_a_checkpoint_error(stopped: Path, sign: Any) -> None:
    plant(stopped, sign, "zip")
    with pytest.raises(CheckpointError, match=r"optimiser\.pt"):
        resume(stopped)


def test_a_loss_that_is_not_finite_stops_the_run_and_the_last_good_state_can_still_be_used(
    finished: Path, stopped: Path, tree: Tree, last_bits: Bits
) -> None:
    shutil.rmtree(stopped / "checkpoints" / "000005-fit")
    sane, checkpoints = (stopped / "config.yaml").read_bytes(), tree(stopped / "checkpoints")
    set_optim(stopped, lr=1e30, clip=0.0)
    with pytest.raises(TrainingError, match=r"class loss is not finite at task 1, epoch 0, .*optim\.lr"):
        resume(stopped)
    assert tree(stopped / "checkpoints") == checkpoints
    assert not (stopped / "summary.json").exists()
    learner, _, _ = load(stopped)
    assert all(torch.isfinite(value).all() for value in learner.state_dict().values())
    (stopped / "config.yaml").write_bytes(sane)
    resume(stopped)
    assert last_bits(stopped) == last_bits(finished)


def test_a_full_disk_is_said_in_words_and_leaves_nothing_behind(
    finished: Path, stopped: Path, tree: Tree, last_bits: Bits
) -> None:
    """Files are bounded instead of the disk: to whoever writes, it is the same error."""
    resource = pytest.importorskip("resource", reason="this system does not bound the size of files")
    before = tree(stopped / "checkpoints")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (stopped / "checkpoints" / "000003-task" / "learner.safetensors").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, hard))
    try:
        with pytest.raises(LockgateError, match=r"Cannot write to .*stopped: File too large.*make room.*resume"):
            resume(stopped)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert tree(stopped / "checkpoints") == before
    resume(stopped)
    assert last_bits(stopped) == last_bits(finished)


def test_going_back_passes_over_what_cannot_be_used(finished: Path, last_bits: Bits) -> None:
    flip(finished / "checkpoints" / "000005-fit" / "learner.safetensors")
    whole = last_bits(finished)
    resume(finished, previous=True)
    assert last_bits(finished) == whole
    for point in (finished / "checkpoints").iterdir():
        flip(point / "learner.safetensors")
    with pytest.raises(CheckpointError, match="no whole checkpoint before the newest"):
        resume(finished, previous=True)


def test_a_finished_run_keeps_the_environment_and_the_version_it_was_made_by(finished: Path) -> None:
    said = json.loads((finished / "summary.json").read_text())
    said["environment"]["machine"] = "another"
    assert said["method_version"] == METHODS[said["method"]].version_of(
        read_experiment(finished / "config.yaml").options
    )
    said["method_version"] = 0
    (finished / "summary.json").write_text(json.dumps(said))
    again = resume(finished)
    assert again["environment"]["machine"] == "another"
    assert again["method_version"] == 0
    del said["method_version"]  # of a time before there were versions
    (finished / "summary.json").write_text(json.dumps(said))
    assert resume(finished)["method_version"] is None


def test_what_is_no_run_folder_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        for use in (resume, load):
            with pytest.raises(RunFolderError, match=r"no config\.yaml"):
                use(folder)


def test_a_run_that_has_finished_no_task_has_nothing_to_load(stopped: Path) -> None:
    shutil.rmtree(stopped / "checkpoints" / "000003-task")
    with pytest.raises(CheckpointError, match="has not finished a task yet"):
        load(stopped)


def test_loading_gives_the_learner_of_the_newest_end_of_a_task(stopped: Path) -> None:
    learner, scenario, experiment = load(stopped)
    assert len(learner.heads) == 1
    assert len(scenario.tasks) == experiment.tasks == 2
