"""Runs on Ray: one cluster, started here as `--ray local` starts it, for both commands."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from tests.support import tiny

from lockgate.cli.main import main
from lockgate.errors import LockgateError
from lockgate.reproduction import reproduce
from lockgate.reproduction.paper_table import Line, PaperTable, with_task
from lockgate.reproduction.plan import jobs
from lockgate.reproduction.runners import ray as on_ray

ONE = ["--dataset", "synthetic", "--data.synthetic_classes", "4", "--data.synthetic_per_class", "10", "--tasks", "2"]
ONE += ["--epochs", "1", "--model.width", "4", "--optim.batch_size", "8", "--scenario.held_out", "0.4"]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'lockgate[sweep]'")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")  # tells nobody
    monkeypatch.setenv("RAY_worker_niceness", "0")  # beside other tests it would hardly be given a core


def test_reproduce_and_select_run_on_ray(
    installed: None, paper_table: PaperTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    import ray

    small = dataclasses.replace(paper_table, lines=lambda schedule: paper_table.lines(schedule)[:1])
    monkeypatch.setattr(reproduce, "TABLES", {"small": small, "other": small})
    with on_ray.cluster("local", 1):
        assert main(["reproduce", "small", "--ray", "local", "--seeds", "1", "--root", str(tmp_path / "runs")]) == 0
        words = ["select", "finetune", *ONE, "--trials", "1", "--ray", "local", "--out", str(tmp_path / "select")]
        assert main(words) == 0
        assert ray.is_initialized(), "a cluster that was there is left as it was"
    assert not ray.is_initialized()
    assert len(list((tmp_path / "runs").glob("*/summary.json"))) == 1
    assert (tmp_path / "runs" / "small.html").is_file()
    assert yaml.safe_load((tmp_path / "select" / "finetune.yaml").read_text())["budget"]["failed"] == []
    assert capsys.readouterr().err.count("finished (1 of 1)") == 2


def test_without_ray_the_command_that_brings_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(LockgateError, match=r"pip install 'lockgate\[sweep\]'"), on_ray.cluster("local", 1):
        pass


@pytest.mark.slow
def test_a_dead_workers_run_is_resumed_by_another(installed: None, tmp_path: Path) -> None:
    line = Line("synthetic", "ours", ("avg",), (None,), tiny.experiment("ccgn", epochs=30), with_task)
    (job,) = jobs([line], "short", 1, tmp_path)
    killed: list[int] = []

    def kill_a_worker() -> None:
        for _ in range(1200):
            found = subprocess.run(["pgrep", "-f", "ray::_work"], capture_output=True, text=True).stdout.split()
            if found and list(tmp_path.glob("*/checkpoints/*-fit")):
                os.kill(int(found[0]), signal.SIGKILL)
                killed.append(int(found[0]))
                return
            time.sleep(0.05)

    killer = threading.Thread(target=kill_a_worker)
    killer.start()
    assert on_ray.run_jobs([job], "local", 2, lambda _: None) == []
    killer.join()
    assert killed
    assert job.finished
