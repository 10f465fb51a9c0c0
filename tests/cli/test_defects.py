"""What users stumbled over, one test each: the message is what is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.support.folders import images, write

from lockgate import ContinualClassifier
from lockgate.errors import ConfigError
from lockgate.runs import checkpoint, process
from lockgate.runs.log import read_records

Command = Callable[..., tuple[int, str, str]]
ONE = ["--width=8", "--epochs=1"]


@contextmanager
def small_disk(size: int) -> Iterator[None]:
    """No file may become larger than ``size`` bytes: what a full disk feels like."""
    resource = pytest.importorskip("resource", reason="this system does not bound the size of files")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_seconds_of_a_run_are_those_of_testing_too(command: Command, ccgn: Path) -> None:
    ends = [record for record in read_records(ccgn / "records.jsonl") if record["event"] == "task"]
    assert all(end["seconds"] > end["test_seconds"] > 0 for end in ends)
    epochs = [r["seconds"] for r in read_records(ccgn / "records.jsonl") if r["event"] == "epoch"]
    assert sum(end["seconds"] for end in ends) > sum(epochs) + sum(end["test_seconds"] for end in ends)
    summary = json.loads((ccgn / "summary.json").read_text())
    assert summary["seconds"] == sum(end["seconds"] for end in ends)


def test_testing_can_be_limited_and_says_on_what_it_was(
    command: Command, tmp_path: Path, tiny_flags: list[str]
) -> None:
    words = ["run", *tiny_flags, "--method=ccgn", f"--out={tmp_path / 'run'}", "--quiet", "--json"]
    code, out, err = command(*words, "--eval.images=3")
    assert (code, err) == (0, "")
    rows = json.loads(out)["task_incremental"]["matrix"]
    assert {round(value * 3, 6) % 1 for row in rows for value in row if value is not None} == {0.0}, "thirds"
    assert command("audit", tmp_path / "run")[0] == 0, "the promise is about the images that were tested"
    code, _, err = command(*words[:-2], "--eval.images=3", "--scenario.evaluate=held_out")
    assert code == 2
    assert "'eval.images' limits test images" in err


def test_testing_on_many_images_is_announced_with_the_way_to_shorten_it(
    command: Command, tmp_path: Path, tiny_flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MANY_TESTS", 1)
    code, _, err = command("run", *tiny_flags, "--method=finetune", "--eval.images=3", f"--out={tmp_path / 'run'}")
    assert code == 0
    assert "testing on 3 images (--eval.images N: on fewer)" in err
    assert "testing on 6 images" in err, "of two tasks"


@pytest.mark.parametrize(("method", "refused"), [("ccgn", True), ("hat", True), ("ccgn-episodic", False)])
def test_tasks_of_one_class_are_refused_or_said_to_say_nothing(
    command: Command, tmp_path: Path, tiny_flags: list[str], method: str, refused: bool
) -> None:
    code, _, err = command("run", *tiny_flags, "--tasks=4", f"--method={method}", f"--out={tmp_path / 'run'}")
    if refused:
        assert code == 2
        assert "Got 4 tasks of one class instead; choose at most 2" in err
        assert not (tmp_path / "run").exists()
    else:
        assert code == 0
        assert "warning: 4 of 4 tasks have one class: with the task given, accuracy there is 1 by definition" in err


@pytest.mark.parametrize("words", [["report"], ["export"], ["export", "--format=torch"]])
@pytest.mark.parametrize("place", ["/sys", "/nowhere/at all"])
def test_a_place_that_cannot_be_written_is_said_so(command: Command, ccgn: Path, words: list[str], place: str) -> None:
    ending = ".html" if words == ["report"] else ".pt2" if len(words) > 1 else ".onnx"
    task = ["--task=0"] if words[0] == "export" else []
    code, out, err = command(words[0], ccgn, *words[1:], *task, f"--out={place}/file{ending}")
    assert (code, out) == (1, "")
    assert f"{place}/file{ending}" in err
    assert "--out" in err


def test_too_little_memory_is_said_so(command: Command, taught: Path) -> None:
    code, _, err = command("learn", taught / "new", taught / "pets", "--width=9000000", "--epochs=1", "--quiet")
    assert code == 1
    assert "There is not enough memory. Use smaller images (--size" in err
    assert not (taught / "new").exists()


def test_a_setting_of_another_type_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'epochs' must be a whole number. Got '3' instead"):
        ContinualClassifier(epochs="3").learn(images("cat", 6), np.zeros(6, int))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"'lr' must be a number. Got 'fast' instead"):
        ContinualClassifier(lr="fast").learn(images("cat", 6), np.zeros(6, int))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "MODEL", "pets", "--top=x"], "argument --top: must be a whole number from 1 on. Got 'x'"),
        (["serve", "MODEL", "--port=x"], "argument --port: must be a whole number from 0 to 65535. Got 'x'"),
        (["serve", "nowhere"], "nowhere does not exist. Give the folder of a model (`lockgate learn` makes one)"),
        (["predict", "nowhere", "pets"], "does not exist. Give the folder of a model (`lockgate learn` makes one)"),
        (["predict", "pets", "pets"], "holds neither a model nor a run"),
        (["learn", "new", "pets", "--epoch=3"], "Unknown flag '--epoch'"),
        (["run", "EMPTY"], "must hold 'key: value' lines. Got an empty file instead."),
    ],
)
def test_what_was_wanted_is_said(command: Command, taught: Path, words: list[str], message: str) -> None:
    (taught / "empty.yaml").touch()
    places = {"MODEL": "model", "EMPTY": "empty.yaml"}
    code, out, err = command(words[0], *(w if w.startswith("--") else taught / places.get(w, w) for w in words[1:]))
    assert (code > 0, out) == (True, "")
    assert message in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "Got an empty file instead."),
        (b"{", "Cannot read"),
        (b"\xff\xfe", "Cannot read"),
        (b"epochs: -2\n", "'epochs' must be at least 1"),
        (b"method: finetune\n", "does not fit the configuration beside it; was that edited? Put it back as it was."),
    ],
)
@pytest.mark.parametrize("asked", ["inspect", "predict"])
def test_a_broken_description_of_a_model_is_named(
    command: Command, taught: Path, text: bytes, message: str, asked: str
) -> None:
    (taught / "model" / "model.yaml").write_bytes(text)
    if b"finetune" in text and asked == "inspect":
        return  # it reads records, and no network
    code, out, err = command(asked, taught / "model", *([taught / "pets"] if asked == "predict" else []))
    assert (code, out) == (1, "")
    assert "model.yaml" in err or "checkpoints" in err
    assert message in err
    assert "ut it back as it was" in err
    assert len(err) < 1000


def test_a_full_disk_in_a_first_task_speaks_of_no_checkpoint(command: Command, taught: Path) -> None:
    with small_disk(12_000):
        code, _, err = command("learn", taught / "new", taught / "pets", *ONE, "--quiet")
    assert code == 1
    assert "There was no checkpoint yet, so nothing is kept: make room" in err
    assert "is intact" not in err
    with small_disk(12_000):
        code, _, err = command("learn", taught / "model", write(taught / "ships", {"tug": 4, "ferry": 4}), "--quiet")
    assert code == 1
    assert "The newest checkpoint is intact: make room" in err
    assert command("audit", taught / "model")[0] == 0


def test_a_resumed_task_says_that_it_resumed(command: Command, taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = checkpoint.save, 2

    def failing(*arguments: object, **named: object) -> object:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        return real(*arguments, **named)  # type: ignore[arg-type]

    words = ["learn", taught / "new", taught / "pets", "--width=8", "--epochs=4", "--batch-size=8"]
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", failing)
        code, _, err = command(*words)
    assert code == 130
    assert "Nothing is lost: give the same command again" in err
    code, out, _ = command(*words)
    assert code == 0
    assert "resumed: this task was stopped in epoch 3, after" in out


def test_python_m_lockgate_is_the_command() -> None:
    found = subprocess.run([sys.executable, "-m", "lockgate", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("lockgate ")
