"""Runs in processes of this machine, some at a time. Each can be killed and is resumed from its last checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lockgate.reproduction.estimate import time_left
from lockgate.reproduction.plan import Job, command
from lockgate.training.stopping import STOPPED, asked_to_stop

TRIES = 3
"""Times that a run is begun or taken up again while its process gets killed."""
SECONDS_TO_END = 30.0
"""Seconds that processes have to end by themselves when the command is stopped; then they are killed."""


def run_jobs(jobs: Sequence[Job], at_once: int, log: Callable[[str], None]) -> list[Job]:
    """Run what is not finished, ``at_once`` runs at a time; returns those that failed.

    A run that ends with an error is left as it is and the others go on. Whatever stops the command, no work is lost:
    every run resumes from its last checkpoint.
    """
    waiting = [(job, 1) for job in jobs if not job.finished]
    total, failed = len(waiting), list[Job]()
    running: dict[subprocess.Popen[bytes], tuple[Job, int, float]] = {}
    done, first = 0, time.monotonic()
    with asked_to_stop():
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    job, attempt = waiting.pop(0)
                    log(f"{job.folder.name}: {'started' if attempt == 1 else 'taken up again'}")
                    running[start(job, at_once)] = (job, attempt, time.monotonic())
                process = _first_to_end(running)
                job, attempt, began = running.pop(process)
                minutes = (time.monotonic() - began) / 60
                killed = process.returncode < 0 or process.returncode == STOPPED  # not the run's own fault
                if job.finished:
                    done += 1
                    left = time_left(time.monotonic() - first, done, total - done - len(failed))
                    log(f"{job.folder.name}: finished in {minutes:.1f} min ({done} of {total}{left})")
                elif killed and attempt < TRIES:
                    waiting.insert(0, (job, attempt + 1))
                else:
                    failed.append(job)
                    log(f"{job.folder.name}: failed; see {log_of(job)}")
        finally:
            _stop(running)
    return failed


def start(job: Job, at_once: int) -> subprocess.Popen[bytes]:
    """A process that runs the job from its beginning, or from where it was left."""
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    threads = max(1, cores() // at_once)
    if (job.folder / "config.yaml").is_file():
        words = ["resume", str(job.folder)]
    else:
        words = [*command(job.experiment, job.schedule), "--runtime.threads", str(threads), "--out", str(job.folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with log_of(job).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "lockgate.cli.main", *words], stdout=log, stderr=log, env=environment
        )


def cores() -> int:
    """Of this machine, those that this process may use (`taskset`, a container): more threads would only spin."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def log_of(job: Job) -> Path:
    """What a run said, beside its folder."""
    return job.folder.with_name(f"{job.folder.name}.log")


def _first_to_end(running: dict[subprocess.Popen[bytes], tuple[Job, int, float]]) -> subprocess.Popen[bytes]:
    while True:
        for process in running:
            if process.poll() is not None:
                return process
        time.sleep(0.2)


def _stop(running: dict[subprocess.Popen[bytes], tuple[Job, int, float]]) -> None:
    """End what still runs; at the keyboard, Ctrl-C has reached it already."""
    for process in running:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + SECONDS_TO_END
    for process in running:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
