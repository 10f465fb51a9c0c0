"""Processes of their own that are quick to start: forked from a server that has imported torch and Fabric.

A new interpreter takes four seconds of a core to import them, more than what most tests do with it. What must be tested
with an interpreter that has imported nothing (what an import brings, how fast a command answers) is no case for this.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

_TOP = Path(__file__).parents[2]
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["lightning_fabric", "sklearn.svm", "lockgate.cli.run", "lockgate.cli.model", "lockgate.runs.run", "lockgate.app"]
)
TIMEOUT = 300


def start(
    work: Callable[..., Any], *arguments: object, folder: Path, out: Path, err: Path, path: Sequence[str] = ()
) -> ForkServerProcess:
    """A process in ``folder`` that does ``work``, of which it exits with what is returned.

    Its modules are looked for in ``path`` first, and where an installed Lockgate finds them; not beside these tests.
    """
    path = [*path, *(place for place in sys.path if place and Path(place).resolve() != _TOP)]
    process = _CONTEXT.Process(target=_work, args=(work, arguments, folder, dict(os.environ), path, out, err))
    process.start()
    return process


def call(
    work: Callable[..., Any], *arguments: object, folder: Path, path: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run`` of a program that does ``work``: how it ended, and what it wrote."""
    with tempfile.TemporaryDirectory() as kept:
        out, err = Path(kept) / "out", Path(kept) / "err"
        process = start(work, *arguments, folder=folder, out=out, err=err, path=path)
        process.join(TIMEOUT)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"{work} {arguments} did not end within {TIMEOUT} s: {err.read_text()}")
        return subprocess.CompletedProcess(arguments, process.exitcode, out.read_text(), err.read_text())


def script(name: str, *words: str) -> None:
    """``python NAME WORDS``, in the current folder."""
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = [name, *words]
    runpy.run_path(name, run_name="__main__")


def _work(
    work: Callable[..., Any],
    arguments: Sequence[object],
    folder: Path,
    environment: dict[str, str],
    path: list[str],
    out: Path,
    err: Path,
) -> None:
    for descriptor, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:] = path
    sys.exit(work(*arguments))
