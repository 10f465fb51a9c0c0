"""A command that is asked to stop says how to go on, and then goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lockgate.cli.main import _parser, _remedy, main


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_says_how_to_go_on_and_does(tmp_path: Path, stop: signal.Signals) -> None:
    out = tmp_path / "run"
    small = "--tasks 2 --epochs 40 --model.width 4 --data.synthetic_classes 4 --data.synthetic_per_class 20"
    words = f"run short --method finetune --dataset synthetic {small} --runtime.checkpoint_seconds 0 --out {out}"
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # else ignored behind a shell
        "from lockgate.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    run = subprocess.Popen([sys.executable, "-c", code, *words.split()], stderr=subprocess.PIPE, text=True)
    while not list(out.glob("checkpoints/*-fit")):
        assert run.poll() is None, "the run ended before it could be stopped"
        time.sleep(0.01)
    run.send_signal(stop)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert f"Nothing is lost: continue with `lockgate resume {out}`" in said
    assert not (out / "summary.json").exists()
    assert main(["resume", str(out)]) == 0
    assert (out / "summary.json").exists()


@pytest.mark.parametrize("words", ["predict MODEL IMAGE", "audit RUN", "export RUN", "run --out RUN", "resume RUN"])
def test_what_has_nothing_to_go_on_with_is_just_stopped(words: str) -> None:
    parsed = _parser()[0].parse_args(words.split())
    assert _remedy(parsed.command, parsed) == ""
    assert _remedy(parsed.command, None) == ""  # stopped while it was read
