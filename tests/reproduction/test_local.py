"""Runs on this machine take the cores that they may use, no more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ASK = "from lockgate.reproduction.runners.local import cores; print(cores())"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not tie processes to cores")
def test_of_the_cores_those_that_the_process_may_use() -> None:
    one = {min(os.sched_getaffinity(0))}
    asked = subprocess.run(
        [sys.executable, "-c", ASK],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, one),
    )
    assert asked.stdout.strip() == "1"
