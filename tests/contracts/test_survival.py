"""A run survives anything: killed with SIGKILL at many instants and resumed, it ends with the same bits."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support import fresh_process, killer, tiny
from tests.support.systems import posix

from lockgate.methods import METHODS

pytestmark = posix
KILLS = 12
GROWING = {"grow": 0.5, "open_bias": 0.5}
CASES = [(method, "simple_cnn", {}) for method in METHODS]
CASES += [("ccgn", "resnet18", {}), ("ccgn-episodic", "resnet18", {}), ("ccgn", "simple_cnn", GROWING)]
CASES += [("ccgn-episodic", "simple_cnn", tiny.ANNEALING), ("ccgn", "resnet18", tiny.ANNEALING)]
CASES += [("ccgn-episodic", "simple_cnn", {"seal": False})]  # past streams change then, in every step
CASES += [("ccgn", "tests.support.networks:Concatenated", {})]  # what was given stands in the end of a task alone
CASES += [("ccgn-generative", "simple_cnn", {"targets": "class", "seal": seal}) for seal in (True, False)]


@pytest.fixture(scope="module")
def survive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., dict[str, Any]]]:
    """One process kills for all cases."""
    folder = tmp_path_factory.mktemp("killer")
    here, there = multiprocessing.Pipe()
    process = fresh_process.start(killer.serve, there, folder=folder, out=folder / "out", err=folder / "err")
    there.close()

    def ask(**case: Any) -> dict[str, Any]:
        here.send(case)
        result: dict[str, Any] = here.recv()
        return result

    yield ask
    here.close()
    process.join()


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
