"""Kill a run with SIGKILL again and again, resume it to its end, and compare it with one that was never killed.

``serve`` takes cases from a pipe and answers each. It runs in a process of its own (``fresh_process``), and each
attempt is a child that it forks, so that ten kills cost seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from lockgate.methods import METHODS
from lockgate.runs.checkpoint import found
from lockgate.runs.run import resume, run
from tests.support import tiny

TIMEOUT = 120
LOOK = 0.0005
"""Seconds between two looks at the folder: to look without rest would take a core from the run that is watched."""


def child(work) -> int:
    """Fork a process that does ``work``; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        if not os.environ.get("KILLER_DEBUG"):
            os.dup2(quiet, 2)
        work()
        code = 0
    finally:
        os._exit(code)


def finish(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError(f"a run that nobody killed ended with status {status}")


def snapshot(out: Path) -> dict[str, object]:
    points = out / "checkpoints"
    names = sorted(p.name for p in points.iterdir()) if points.is_dir() else []
    records = out / "records.jsonl"
    return {
        "partial": [n for n in names if n.endswith(".partial") and any((points / n).iterdir())],
        "checkpoints": [n for n in names if not n.startswith(".")],
        "records": records.stat().st_size if records.exists() else 0,
    }


def reached(kind: str, out: Path, before: dict[str, object]) -> bool:
    """Whether the instant to kill at has come."""
    try:
        now = snapshot(out)
    except OSError:  # a folder was renamed while we looked
        return False
    if kind == "in the middle of a checkpoint":
        return bool(now["partial"]) and now["checkpoints"] != before["checkpoints"]
    if kind == "between record and checkpoint":
        return now["records"] > before["records"]
    new = set(now["checkpoints"]) - set(before["checkpoints"])
    if kind == "at any time":
        return (out / "config.yaml").exists()
    if kind == "between tasks":
        return any(n.endswith("-task") for n in new)
    return len(new) > 1  # in the middle of a step: some steps on


def attempt(kind: str, out: Path, work, rng: random.Random) -> bool:
    """Start the run, kill it at an instant of ``kind``; False if it ended first."""
    before = snapshot(out)
    pid = child(work)
    deadline = time.monotonic() + TIMEOUT
    while not reached(kind, out, before):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            if status != 0:
                raise RuntimeError(f"the run ended by itself with status {status}")
            return False
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            raise RuntimeError(f"nothing happened for {TIMEOUT} s while waiting for {kind!r}")
        time.sleep(LOOK)
    if kind in ("in the middle of a step", "at any time"):
        time.sleep(rng.random() * 0.02)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def outcome(out: Path) -> dict[str, object]:
    """Everything about a finished run that must not depend on having been killed."""
    last = sorted(p for p in (out / "checkpoints").iterdir() if p.name.endswith("-task"))[-1]
    summary = json.loads((out / "summary.json").read_text())
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    for record in records:
        record.pop("seconds")
        record.pop("test_seconds", None)
    return {
        "learner": hashlib.sha256((last / "learner.safetensors").read_bytes()).hexdigest(),
        "task_incremental": summary["task_incremental"],
        "class_incremental": summary["class_incremental"],
        "records": records,
    }


def survive(method: str, backbone: str, options: dict[str, object], folder: str, kills: int) -> dict[str, object]:
    """Kill a run so many times; what it came to, beside what one came to that nobody killed."""
    size = {"options": options, "tasks": 3, "epochs": 3, "data": {"synthetic_classes": 6, "synthetic_per_class": 30}}
    steady = tiny.experiment(method, backbone, **size)
    restless = tiny.experiment(method, backbone, **size, runtime={"checkpoint_seconds": 0.0})  # after every step
    reference, out = Path(folder) / "reference", Path(folder) / "killed"
    finish(child(lambda: run(steady, reference)))
    often = ["in the middle of a step", "in the middle of a checkpoint"]
    kinds = [*often * 4, "between record and checkpoint", *often, "between tasks"]
    if METHODS[method].closed_form:  # a task is a single step, after which the run is soon over
        kinds = ["at any time", "in the middle of a checkpoint", "at any time", "between tasks", "at any time"]
    rng = random.Random(0)
    done: list[str] = []
    phases: list[int] = []  # of a task, in which the run was found after each kill
    while len(done) < min(kills, len(kinds)):
        started = (out / "config.yaml").exists()
        kind = kinds[len(done)]
        if not attempt(kind, out, (lambda: resume(out)) if started else (lambda: run(restless, out)), rng):
            break
        done.append(kind)
        newest = found(out / "checkpoints")[-1:]
        phases += [point.manifest()["meta"]["phase"] for point in newest if point.kind == "fit"]
    if not (out / "summary.json").exists():
        finish(child(lambda: resume(out)))
    return {"kills": done, "phases": phases, "reference": outcome(reference), "killed": outcome(out)}


def serve(cases: Connection) -> None:
    """Answer every case that comes through the pipe, until it is closed."""
    while True:
        try:
            case = cases.recv()
        except EOFError:
            return
        try:
            cases.send(survive(**case))
        except Exception:
            cases.send({"error": traceback.format_exc()})
