"""The examples, as an outsider runs them: copied to another folder, in a process of their own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.support import fresh_process

import lockgate

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST = 60


def output_of(name: str, folder: Path, *words: str) -> str:
    script = Path(shutil.copy(EXAMPLES / f"{name}.py", folder))
    done = fresh_process.call(fresh_process.script, script.name, *words, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < LONGEST


def test_own_data_is_learnt_kept_and_audited(tmp_path: Path) -> None:
    said = output_of("own_dataset", tmp_path)
    assert "audit passed" in said.splitlines()[-1]
    result = lockgate.load(tmp_path / "runs" / "ccgn-episodic-own-data-seed0")
    assert result.accuracy is not None
    assert result.accuracy > 0.8  # of four shapes, nobody saying which task
    assert set(result.classes) == {"bar", "cross", "disc", "square"}


def test_a_loop_of_ones_own_forgets_nothing_with_gates_and_something_without(tmp_path: Path) -> None:
    changed = {}
    for method in ("ccgn", "finetune"):
        said = output_of("own_loop", tmp_path, method)
        assert said.count("epoch 0:") == 5
        changed[method] = float(re.findall(r"largest change of a past answer: (.*)", said)[0])
        assert min(map(float, re.findall(r"test accuracy (.*)", said))) > 0.6
    assert changed["ccgn"] == 0 < changed["finetune"]
