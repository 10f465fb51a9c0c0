"""A task killed at ten instants: the model loads, answers as before, and learns the task in the end, same bits."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support import fresh_process, model_killer
from tests.support.systems import posix


@posix
def test_a_task_killed_at_ten_instants_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    done = fresh_process.call(model_killer.main, tmp_path, 10, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["kills"]) == 10, found["kills"]
    assert found["changed"] == []
    assert found["half"], "a half-learnt task was there all the time"
    assert found["same"], "given again, the task ends with the bits of one never killed"
    assert found["audit"]
    assert "nothing yet" in found["first"]
    assert found["first same"]
    assert found["other"] == ["pets", "ships"], "another task drops the half-learnt task"
    assert found["other audit"]
    assert "in use by another process" in found["refused"]["error"]
    assert found["refused"]["first was at work"]
    assert found["refused"]["seconds"] < 1
