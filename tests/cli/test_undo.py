"""`lockgate undo`, and the commands that errors advise: what they say, and that they work."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.folders import bits, write

from lockgate.app.undo import look_back, undo
from lockgate.errors import CheckpointError

Command = Callable[..., tuple[int, str, str]]


def newest(folder: Path) -> Path:
    return max((folder / "checkpoints").glob("*-task"))


def damage(folder: Path, file: str = "learner.safetensors") -> None:
    with (newest(folder) / file).open("ab") as handle:
        handle.write(b"x")


def advised(err: str) -> list[str]:
    """The words of the command that an error names."""
    found = re.search(r"`lockgate (\w+ [^`]*)`", err)
    assert found, err
    return shlex.split(found[1])


def test_undoing_a_task_says_what_goes_and_leaves_the_model_as_it_was(command: Command, taught: Path) -> None:
    model, old = taught / "model", None
    records = (model / "records.jsonl").read_bytes()
    before = sorted((model / "checkpoints").glob("*-task"))[-2] / "learner.safetensors"
    old = before.read_bytes()
    code, out, err = command("undo", model, "--yes")
    assert (code, err) == (0, "")
    assert out == f"Removed the task 'tools' from {model}. It knows 'pets'.\n"
    assert (newest(model) / "learner.safetensors").read_bytes() == old
    assert len((model / "records.jsonl").read_bytes()) < len(records)
    assert command("audit", model)[0] == 0
    code, out, _ = command("inspect", model, "--json")
    assert [task["name"] for task in json.loads(out)["tasks"]] == ["pets"]


def test_a_task_learnt_again_after_an_undo_has_the_same_bits(command: Command, taught: Path) -> None:
    model, was = taught / "model", bits(taught / "model")
    assert command("undo", model, "--yes")[0] == 0
    assert command("learn", model, taught / "tools", "--epochs=3", "--batch-size=8", "--quiet")[0] == 0
    assert bits(model) == was


def test_nobody_is_undone_without_being_asked(command: Command, taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = taught / "model"
    code, _, err = command("undo", model)  # no terminal
    assert code == 1
    assert "This removes the task 'tools'" in err
    assert "What stays: 'pets'" in err
    assert "--yes" in err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, code in (("n", 1), ("", 1), ("Yes", 0)):
        monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
        assert command("undo", model)[0] == code


def test_a_model_goes_back_once_and_again_when_it_has_learnt_another(command: Command, taught: Path) -> None:
    write(taught / "ships", {"ferry": 4, "tug": 4})
    model = taught / "model"
    assert command("learn", model, taught / "ships", "--epochs=1", "--quiet")[0] == 0
    assert command("undo", model, "--yes")[0] == 0
    code, _, err = command("undo", model, "--yes")
    assert code == 1
    assert "keeps nothing from before its last task 'tools'" in err
    assert command("learn", model, taught / "ships", "--epochs=1", "--quiet")[0] == 0
    assert command("undo", model, "--yes", "--json")[0] == 0


def test_undoing_the_only_task_removes_the_folder(command: Command, taught: Path) -> None:
    model = taught / "one"
    assert command("learn", model, taught / "pets", "--width=8", "--epochs=1", "--quiet")[0] == 0
    assert "and the folder is removed" in look_back(model).question()
    code, out, _ = command("undo", model, "--yes", "--json")
    assert (code, json.loads(out)["tasks"]) == (0, [])
    assert not model.exists()


@pytest.mark.parametrize("file", ["learner.safetensors", "probes.safetensors", "manifest.json"])
@pytest.mark.parametrize("asked", ["predict", "inspect", "audit", "learn"])
def test_the_advice_on_a_damaged_model_works(command: Command, taught: Path, asked: str, file: str) -> None:
    model = taught / "model"
    damage(model, file)
    extra = {"predict": [taught / "pets"], "learn": [taught / "pets", "--epochs=1"]}.get(asked, [])
    code, _, err = command(asked, model, *extra)
    assert code == 1
    assert "is damaged" in err
    words = advised(err)
    assert words == ["undo", str(model)]
    code, out, err = command(*words, "--yes")
    assert (code, err) == (0, "")
    assert "It knows 'pets'" in out
    assert command("audit", model)[0] == 0


def test_the_advice_on_a_damaged_run_works(command: Command, ccgn: Path) -> None:
    damage(ccgn)
    (ccgn / "summary.json").unlink()
    code, _, err = command("evaluate", ccgn)
    assert code == 1
    assert advised(err) == ["resume", str(ccgn), "--previous"]
    assert command(*advised(err))[0] == 0


def test_no_way_back_is_advised_where_there_is_none(command: Command, taught: Path) -> None:
    model = taught / "model"
    assert command("undo", model, "--yes")[0] == 0
    damage(model)
    code, _, err = command("inspect", model)
    assert code == 1
    assert "Restore the file from a copy." in err
    assert "`lockgate" not in err


def test_a_model_that_changed_since_the_question_is_left_alone(taught: Path) -> None:
    model = taught / "model"
    agreed = look_back(model)
    undo(model)
    with pytest.raises(CheckpointError, match="has changed since you were asked: nothing was removed"):
        undo(model, agreed)


@pytest.mark.parametrize(
    ("place", "message"),
    [("nowhere", "does not exist. Give the folder of a model"), ("pets", "holds no model: there is no model.yaml")],
)
def test_what_is_no_model_cannot_be_undone(command: Command, taught: Path, place: str, message: str) -> None:
    code, _, err = command("undo", taught / place, "--yes")
    assert code == 1
    assert message in err


def test_a_run_is_no_model(command: Command, ccgn: Path) -> None:
    code, _, err = command("undo", ccgn, "--yes")
    assert code == 1
    assert "is a run, and this is for models" in err
