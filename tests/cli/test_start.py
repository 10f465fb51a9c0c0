"""The command as a process: quick to answer, and nothing heavy imported for a question."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockgate.version import __version__

LOCKGATE = Path(sys.executable).parent / "lockgate"
HEAVY = ("torch", "lightning_fabric", "numpy", "sklearn", "scipy", "jinja2", "PIL", "rich")


def test_questions_import_nothing_heavy() -> None:
    script = f"""
import contextlib, io, sys
from lockgate.cli.main import main
for words in (["--help"], ["--version"], ["run", "--help"], ["list"], ["run", "--nonsense"]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.suppress(SystemExit):
            main(words)
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    if words == ["list"]:  # numpy is what data sets are made of
        loaded = [name for name in loaded if name != "numpy"]
        sys.modules.pop("numpy", None)
    assert not loaded, (words, loaded)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_answers_within_half_a_second_of_the_processor() -> None:
    """CPU time of the child, its own and the system's for it: a busy machine does not change what it does."""
    before = os.times()
    done = subprocess.run([LOCKGATE, "--help"], capture_output=True, text=True, check=True)
    after = os.times()
    assert after.children_user + after.children_system - before.children_user - before.children_system < 0.5
    for verb in ("run", "resume", "evaluate", "audit", "report", "list"):
        assert verb in done.stdout


def test_the_version_is_the_packages() -> None:
    done = subprocess.run([LOCKGATE, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"lockgate {__version__}\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["list"], 0),
        (["report", "/nowhere"], 1),
        (["run", "--nonsense", "3"], 2),
        (["nonsense"], 2),
        ([], 2),
        (["list", "nonsense"], 2),
    ],
)
def test_the_process_exits_with_0_or_1_for_what_went_wrong_or_2_for_what_was_asked_wrongly(
    words: list[str], code: int
) -> None:
    done = subprocess.run([LOCKGATE, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert bool(done.stderr) == bool(code)
    assert bool(done.stdout) == (not code)
