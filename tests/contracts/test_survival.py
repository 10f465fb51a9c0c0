"""A run survives anything: killed with SIGKILL at many instants and resumed, it ends with the same bits."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import tiny

from lockgate.methods import METHODS

KILLER = Path(__file__).parents[1] / "support" / "killer.py"
KILLS = 12
GROWING = {"grow": 0.5, "open_bias": 0.5}
CASES = [(method, "simple_cnn", {}) for method in METHODS]
CASES += [("ccgn", "resnet18", {}), ("ccgn-episodic", "resnet18", {}), ("ccgn", "simple_cnn", GROWING)]
CASES += [("ccgn-episodic", "simple_cnn", tiny.ANNEALING), ("ccgn", "resnet18", tiny.ANNEALING)]
CASES += [("ccgn-episodic", "simple_cnn", {"seal": False})]  # past streams change then, in every step
CASES += [("ccgn-generative", "simple_cnn", {"targets": "class", "seal": seal}) for seal in (True, False)]


@pytest.fixture(scope="module")
def survive() -> Iterator[Callable[..., dict[str, Any]]]:
    """One process that has imported torch kills for all cases."""
    command = [sys.executable, str(KILLER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killer:

        def ask(**case: Any) -> dict[str, Any]:
            print(json.dumps(case), file=killer.stdin, flush=True)
            return json.loads(killer.stdout.readline())

        yield ask


@pytest.mark.parametrize(("method", "backbone", "options"), CASES)
def test_killed_and_resumed_ends_with_the_same_bits(method, backbone, options, tmp_path, survive):
    result = survive(method=method, backbone=backbone, options=options, folder=str(tmp_path), kills=KILLS)
    assert "error" not in result, result["error"]
    assert result["killed"] == result["reference"]
    if METHODS[method].closed_form:  # killed before, in and after the only step of a task
        assert {"at any time", "in the middle of a checkpoint"} <= set(result["kills"])
        return
    assert len(result["kills"]) >= 10, result["kills"]
    assert {"in the middle of a checkpoint", "in the middle of a step"} <= set(result["kills"])
    two = method in ("ccgn-generative", "cgen")  # a generator, then the task
    assert set(result["phases"]) == ({0, 1} if two else {0}), "killed in each phase of a task"
    ends = [record for record in result["killed"]["records"] if record["event"] == "task"]
    assert len(ends) == (1 if METHODS[method].joint else 3)
    assert [end["audit"] is not None for end in ends] == [method in tiny.AUDITED] * len(ends)
    if options.get("seal", True) and method in tiny.AUDITED:
        assert all(end["audit"]["ok"] for end in ends)
    if "grow" in options or method == "dgm":
        assert ends[-1]["capacity"][0]["width"] > ends[0]["capacity"][0]["width"], "no layer grew"
