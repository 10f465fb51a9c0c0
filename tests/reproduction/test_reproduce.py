"""A table is run, killed, run again, and written."""

from __future__ import annotations

import csv
import dataclasses
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from tests.support import fresh_process, tiny
from tests.support.systems import posix

from lockgate.cli.main import main
from lockgate.report import load
from lockgate.reproduction import reproduce
from lockgate.reproduction.archive import keep
from lockgate.reproduction.measure import measure
from lockgate.reproduction.paper_table import Line, PaperTable, with_task
from lockgate.reproduction.plan import Job, jobs
from lockgate.reproduction.reproduce import Plan, run_missing, write_all
from lockgate.reproduction.runners import local
from lockgate.reproduction.write import command_of, hardware_of
from lockgate.runs.run import run

AT_ONCE = os.cpu_count() or 1
"""A thread for each run: on images as tiny as these, more would only wait for one another."""


def _processes(root: Path) -> list[int]:
    found = subprocess.run(["pgrep", "-f", f"lockgate.cli.main .*{root}"], capture_output=True, text=True).stdout
    return [int(line) for line in found.split()]


def _long(tmp_path: Path, epochs: int = 30) -> Job:
    """A run that takes some seconds, and checkpoints after every epoch of four steps."""
    experiment = tiny.experiment("ccgn", epochs=epochs)
    line = Line("synthetic", "ours", ("avg",), (None,), experiment, with_task)
    return jobs([line], "short", 1, tmp_path)[0]


def _kill_one(root: Path, kill: signal.Signals, killed: list[int]) -> None:
    """Send ``kill`` to the first process that has written a checkpoint and was not sent one before."""
    before = _checkpoints(root)
    while not list(root.glob("*/summary.json")):
        if _checkpoints(root) - before and (found := set(_processes(root)) - set(killed)):
            killed.append(found.pop())
            os.kill(killed[-1], kill)
            return
        time.sleep(0.02)


def test_what_is_missing_is_run_and_what_is_finished_is_used_again_even_if_the_runs_are_gone(
    paper_table: PaperTable, tmp_path: Path
) -> None:
    runs, results = tmp_path / "runs", tmp_path / "results"
    plan = Plan((paper_table,), "short", 1, runs, results=results, precision="bf16-mixed")
    said: list[str] = []
    assert run_missing(plan, 2, None, said.append) == []
    assert "3 runs wanted, 0 finished, 3 to do" in said[0]
    summaries = {path: path.stat().st_mtime_ns for path in runs.glob("*/summary.json")}
    assert len(summaries) == 3

    said.clear()
    assert run_missing(plan, 2, None, said.append) == []
    assert said == ["3 runs wanted, 3 finished, 0 to do"]
    assert {path: path.stat().st_mtime_ns for path in runs.glob("*/summary.json")} == summaries

    written = {path.name for path in write_all(plan, print)}
    assert written == {"small.html", "small.md", "small.csv", "small-synthetic.svg"}
    with (runs / "small.csv").open() as file:
        rows = list(csv.DictReader(file))
    ours = {(row["row"], row["column"]): float(row["ours"]) for row in rows}
    for folder in (path.parent for path in summaries):
        summary = load.read(folder).summary
        assert summary.class_incremental is not None
        assert summary.class_incremental.average in ours.values()
    assert ours["Full replay", "C = 10"] == ours["Full replay", "C = 20"]
    table = (runs / "small.md").read_text()
    assert "1 · bf16-mixed" in table
    kept = [path.relative_to(results) for path in results.rglob("*") if path.is_file()]
    assert sorted({path.name for path in kept}) == ["config.yaml", "summary.json"]
    assert len(kept) == 2 * 3

    shutil.rmtree(runs)
    runs.mkdir()
    said.clear()
    assert run_missing(plan, 2, None, said.append) == []
    assert said == ["3 runs wanted, 3 finished, 0 to do"]
    write_all(plan, print)
    assert (runs / "small.md").read_text() == table


def test_what_was_measured_is_kept_with_the_results(tmp_path: Path) -> None:
    run(tiny.experiment("ccgn-episodic"), tmp_path / "run")
    macs, gates = measure(tmp_path / "run", "macs"), measure(tmp_path / "run", "gates")
    folder = keep(tmp_path / "run", tmp_path / "results")
    shutil.rmtree(tmp_path / "run")
    assert measure(folder, "macs") == macs
    assert measure(folder, "gates") == gates
    assert (folder / "pictures" / "gates.png").is_file()
    assert not list(folder.rglob("*.part"))


def test_a_run_that_is_kept_anew_replaces_what_stood_for_it(tmp_path: Path) -> None:
    """Whatever its folder is called: a default that was added since gives it another name."""
    results = tmp_path / "results"
    run(tiny.experiment("ccgn"), tmp_path / "run")
    before = keep(tmp_path / "run", results).rename(results / "by another name")
    (before / "summary.json").write_text("{}")
    (before / "macs.json").write_text("{}")
    assert keep(tmp_path / "run", results) == before
    assert [path.name for path in results.iterdir()] == ["by another name"]
    assert (before / "summary.json").read_bytes() == (tmp_path / "run" / "summary.json").read_bytes()
    assert not (before / "macs.json").exists()


def test_a_run_is_kept_with_all_that_any_table_will_ask_of_it(
    paper_table: PaperTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (line,) = [line for line in paper_table.lines("short") if line.row == "ours"][:1]
    plain = dataclasses.replace(paper_table, lines=lambda _: [line])
    costs = dataclasses.replace(paper_table, name="costs", lines=lambda _: [dataclasses.replace(line, measure="macs")])
    monkeypatch.setattr(reproduce, "TABLES", {"small": plain, "costs": costs})
    plan = Plan((plain,), "short", 1, tmp_path / "runs", results=tmp_path / "results")
    (job,) = plan.jobs()
    run(job.experiment, job.folder)
    write_all(plan, print)
    assert len(list((tmp_path / "results").glob("*/macs.json"))) == 1


@posix
def test_a_run_whose_process_is_killed_is_taken_up_again(tmp_path: Path) -> None:
    """With SIGKILL, then when it has been taken up again with SIGTERM."""
    job, said, killed = _long(tmp_path, epochs=20), list[str](), list[int]()

    def kill_twice() -> None:
        for kill in (signal.SIGKILL, signal.SIGTERM):
            _kill_one(tmp_path, kill, killed)

    killer = threading.Thread(target=kill_twice)
    killer.start()
    assert local.run_jobs([job], AT_ONCE, said.append) == []
    killer.join()
    assert len(killed) == len(set(killed)) == 2
    assert sum("taken up again" in line for line in said) == 2
    assert job.finished


@posix
def test_a_sweep_that_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    """Ctrl-C (all processes get it), then `kill` (only the sweep): none is left behind, and the run is resumed."""
    job = _long(tmp_path)
    for stop in (signal.SIGINT, signal.SIGTERM):
        before = _checkpoints(tmp_path)
        sweep = fresh_process.start(_sweep, tmp_path, folder=tmp_path, out=tmp_path / "out", err=tmp_path / "err")
        while not _checkpoints(tmp_path) - before:
            assert sweep.is_alive(), "the sweep ended before it could be stopped"
            time.sleep(0.05)
        assert sweep.pid is not None
        os.killpg(sweep.pid, stop) if stop is signal.SIGINT else os.kill(sweep.pid, stop)
        sweep.join(120)
        assert sweep.exitcode is not None
        assert not _processes(tmp_path)
        assert not job.finished
    began = (job.folder / "config.yaml").stat().st_mtime_ns
    assert local.run_jobs([job], AT_ONCE, lambda _: None) == []
    assert job.finished
    assert (job.folder / "config.yaml").stat().st_mtime_ns == began


def _checkpoints(root: Path) -> set[Path]:
    return set(root.glob("*/checkpoints/*-fit"))


def _sweep(root: Path) -> None:
    os.setsid()  # a session of its own, as a shell gives to what it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
    local.run_jobs([_long(root)], AT_ONCE, print)


def test_a_run_that_fails_does_not_stop_the_others(paper_table: PaperTable, tmp_path: Path) -> None:
    wanted = jobs(paper_table.lines("short"), "short", 1, tmp_path)[:2]
    broken = wanted[0]
    broken.folder.mkdir(parents=True)
    (broken.folder / "not a run").touch()
    said: list[str] = []
    assert local.run_jobs(wanted, AT_ONCE, said.append) == [broken]
    assert all(job.finished for job in wanted[1:])
    assert any(f"{broken.folder.name}: failed; see {local.log_of(broken)}" in line for line in said)
    assert "is not empty" in local.log_of(broken).read_text()


@pytest.mark.parametrize("out", ["--out '/tmp/my runs/x'", "--out=/tmp/x", "--out /tmp/x"])
def test_a_command_is_given_without_the_folder_of_its_run(out: str) -> None:
    assert command_of(f"lockgate run short {out} --seed 3") == "lockgate run short --seed 3"


@pytest.mark.parametrize(("device", "name"), [("cpu", "A processor"), ("cuda:0", "A GPU"), (None, "A GPU")])
def test_hardware_is_what_was_used_not_what_was_there(device: str | None, name: str) -> None:
    there = {"cpu": "A processor", "cuda": "A GPU"} | ({"device": device} if device else {})
    assert hardware_of(there).startswith(f"{name}, ")


def test_schedules_do_not_write_over_one_another(paper_table: PaperTable, tmp_path: Path) -> None:
    short = {path.name for path in write_all(Plan((paper_table,), "short", 1, tmp_path), print)}
    paper = {path.name for path in write_all(Plan((paper_table,), "paper", 1, tmp_path), print)}
    assert not short & paper
    assert "small-paper.html" in paper


def test_a_root_that_cannot_be_made_is_an_error_of_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["reproduce", "gates", "--no-run", "--root", str(tmp_path / "file")]) == 1
    assert "Cannot make the folder" in capsys.readouterr().err
    arguments = [
        "reproduce",
        "gates",
        "--no-run",
        "--root",
        str(tmp_path / "root"),
        "--results",
        str(tmp_path / "file"),
    ]
    assert main(arguments) == 1
    assert "Choose another `--results`" in capsys.readouterr().err
