"""A model in words: nothing is said to be equal that was not compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.folders import teach, write

from lockgate.app.formatting import inspect_text, task_text
from lockgate.app.inspect import inspect_model

CLASSES = {"pets": ("cat", "dog"), "tools": ("axe", "saw"), "ships": ("ferry", "tug")}


def taught(folder: Path, probes: dict[str, int]) -> dict[str, Any]:
    """A model that kept so many probes of each task, inspected."""
    for name, count in probes.items():
        teach(folder / "model", write(folder / name, dict.fromkeys(CLASSES[name], 12)), probes=count)
    return inspect_model(folder / "model")


def line(text: str, start: str) -> str:
    (found,) = [line for line in text.splitlines() if line.startswith(start)]
    return found


def test_with_probes_of_all_tasks_all_is_compared(tmp_path: Path) -> None:
    found = taught(tmp_path, {"pets": 4, "tools": 4})
    text = task_text(found)
    first, second = found["class_incremental"]
    expected = (
        f"No task given: {first:.3f} {second:.3f}, mean {(first + second) / 2:.3f} (past tasks: on their probes)."
    )
    assert expected in text
    tensors = found["audit"]["tensors"]
    assert f"Old answers: {tensors} locked tensors, logits of 1 past task are bit-equal to what they were." in text
    assert "all old answers were bit-equal." in inspect_text(found)


@pytest.mark.parametrize("last", [0, 4])
def test_without_probes_of_past_tasks_answers_are_not_said_to_be_equal(tmp_path: Path, last: int) -> None:
    found = taught(tmp_path, {"pets": 0, "tools": last})
    text = task_text(found)
    (only,) = found["class_incremental"]
    assert line(text, "No task given") == f"No task given: {only:.3f} on 'tools'."
    assert line(text, "Old answers") == (
        f"Old answers: {found['audit']['tensors']} locked tensors are bit-equal to what they were; answers were not "
        "compared: no probes are kept of past tasks."
    )
    inspected = line(inspect_text(found), "Integrity")
    assert "all old answers" not in inspected
    assert ("answers were not compared: no probes are kept." in inspected) == (last == 0)


def test_with_probes_of_some_tasks_it_is_said_of_how_many(tmp_path: Path) -> None:
    found = taught(tmp_path, {"pets": 0, "tools": 4, "ships": 4})
    text = task_text(found)
    assert line(text, "No task given").endswith("(past tasks: on their probes; none are kept of 'pets').")
    assert len(found["class_incremental"]) == 2
    assert "logits of 1 of 2 past tasks are bit-equal to what they were." in text
    assert "so were answers where probes are kept." in inspect_text(found)


def test_a_first_task_has_no_past_to_speak_of(tmp_path: Path) -> None:
    text = task_text(taught(tmp_path, {"pets": 0}))
    assert "No task given" not in text
    assert "Old answers" not in text


def test_what_has_changed_is_named_with_and_without_probes(tmp_path: Path) -> None:
    found = taught(tmp_path, {"pets": 0, "tools": 0})
    found["audit"] |= {"ok": False, "broken": ["task 0: tensor conv1.weight"]}
    assert "locked tensors HAVE CHANGED: task 0: tensor conv1.weight" in task_text(found)
    assert "OLD ANSWERS HAD CHANGED" in inspect_text(found)
