"""A run survives anything: killed with SIGKILL at many instants and resumed, it ends with the same bits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lockgate.methods import METHODS

KILLER = Path(__file__).with_name("killer.py")
KILLS = 12
CASES = [(method, "simple_cnn") for method in METHODS] + [("ccgn", "resnet18")]


@pytest.mark.parametrize(("method", "backbone"), CASES)
def test_killed_and_resumed_ends_with_the_same_bits(method, backbone, tmp_path):
    command = [sys.executable, str(KILLER), method, backbone, str(tmp_path), str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert len(result["kills"]) >= 10, result["kills"]
    assert {"in the middle of a checkpoint", "in the middle of a step"} <= set(result["kills"])
    assert result["killed"] == result["reference"]
