"""The long trials of benchmarks/, in short: the server under too much load, a model through kills and undos."""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmarks.many_tasks import grow
from benchmarks.predict import call, pictures
from benchmarks.serve_load import measure


def test_under_twice_its_load_and_a_kill_no_answer_is_wrong_or_lost(tmp_path: Path) -> None:
    found = asyncio.run(measure(tmp_path, seconds=4, queue=8, connections=24))
    assert (found.wrong, found.lost) == (0, 0)
    assert set(found.replies) == {"200", "503"}, "more than it holds, and told so"
    assert found.memory[-1] < 1.2 * found.memory[0]


def test_a_model_lives_through_kills_and_undos(tmp_path: Path) -> None:
    found = grow(tmp_path, tasks=5, kills=2, undos=2, seed=1, say=lambda _: None)
    assert found.changed == []
    assert found.ok, found.audit
    assert (found.kills, found.undos) == (2, 2)


def test_versions_are_asked_in_processes_of_their_own() -> None:
    assert call("print('fine')", [], None) == "fine\n"
    x, y = pictures(3, 6)
    assert (x.shape, y.tolist()) == ((6, 28, 28), [0, 1] * 3)
