"""Runs on a Ray cluster whose machines share the folder of runs; a dead worker's run is resumed by another."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lockgate.errors import LockgateError
from lockgate.reproduction.estimate import time_left
from lockgate.reproduction.plan import Job, command

TRIES = 3
"""How often Ray starts a run again after its worker died."""


def run_jobs(jobs: Sequence[Job], address: str, at_once: int, log: Callable[[str], None]) -> list[Job]:
    """Carry out what is not finished on the cluster at ``address``, or on a new one here if it is `local`.

    Returns the jobs that failed. Each run takes one CPU, and one GPU where the cluster has any; Ray decides how many
    run at a time.
    """
    with cluster(address, at_once) as ray:
        gpus = 1 if ray.cluster_resources().get("GPU") else 0
        work: Any = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=TRIES, retry_exceptions=False)(_work)
        waiting = {work.remote(job, os.environ.get("LOCKGATE_DATA")): job for job in jobs if not job.finished}
        total, failed, first = len(waiting), list[Job](), time.monotonic()
        while waiting:
            (ready,), _ = ray.wait(list(waiting), num_returns=1)
            job = waiting.pop(ready)
            try:
                ray.get(ready)
                if not job.finished:
                    raise LockgateError(f"its machine wrote nothing to {job.folder}; machines must share that folder.")
                ended = total - len(waiting)
                left = time_left(time.monotonic() - first, ended, len(waiting))
                log(f"{job.folder.name}: finished ({ended} of {total}{left})")
            except (ray.exceptions.RayError, LockgateError) as error:
                failed.append(job)
                log(f"{job.folder.name}: failed: {error}")
        return failed


@contextmanager
def cluster(address: str, at_once: int) -> Iterator[Any]:
    """Ray, connected to ``address``, or started here for ``at_once`` runs at a time and stopped at the end.

    One that is connected already is used, and left as it is. One that is started here listens on this machine only.
    """
    try:
        import ray
    except ImportError as error:
        raise LockgateError(
            "Ray is not installed. Bring it with `pip install 'lockgate[sweep]'`, or leave out --ray."
        ) from error
    if ray.is_initialized():
        yield ray
        return
    local: dict[str, Any] = {"num_cpus": at_once, "_node_ip_address": "127.0.0.1", "include_dashboard": False}
    where = local if address == "local" else {"address": address}
    ray.init(**where, log_to_driver=False, configure_logging=False)
    try:
        yield ray
    finally:
        ray.shutdown()


def _work(job: Job, data: str | None) -> None:
    """One run, from its beginning or from where a dead worker left it. Runs on the cluster."""
    if data is not None:
        os.environ["LOCKGATE_DATA"] = data
    import dataclasses

    from lockgate.runs.run import resume, run

    if (job.folder / "config.yaml").is_file():
        resume(job.folder)
    else:
        runtime = dataclasses.replace(job.experiment.runtime, threads=1)
        words = shlex.join(["lockgate", *command(job.experiment, job.schedule), "--runtime.threads", "1"])
        run(dataclasses.replace(job.experiment, runtime=runtime), job.folder, command=words)
