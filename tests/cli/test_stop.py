"""A command that is asked to stop says how to go on, and then goes on."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
from PIL import Image
from tests.support import fresh_process
from tests.support.systems import posix

from lockgate.cli.main import main


@posix
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_says_how_to_go_on_and_does(tmp_path: Path, stop: signal.Signals) -> None:
    out = tmp_path / "run"
    small = "--tasks 2 --epochs 40 --model.width 4 --data.synthetic_classes 4 --data.synthetic_per_class 20"
    words = f"run short --method finetune --dataset synthetic {small} --runtime.checkpoint_seconds 0 --out {out}"
    said = tmp_path / "said"
    run = fresh_process.start(_started, words.split(), folder=tmp_path, out=tmp_path / "out", err=said)
    while not list(out.glob("checkpoints/*-fit")):
        assert run.is_alive(), "the run ended before it could be stopped"
        time.sleep(0.01)
    assert run.pid is not None
    os.kill(run.pid, stop)
    run.join(60)
    assert run.exitcode == 130
    assert f"Nothing is lost: continue with `lockgate resume {out}`" in said.read_text()
    assert not (out / "summary.json").exists()
    assert main(["resume", str(out)]) == 0
    assert (out / "summary.json").exists()


def _started(words: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else ignored behind a shell
    return main(words)


def stopped(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


WHILE_READ = "lockgate.cli.flags.take_options"
WORK = {
    "predict MODEL IMAGE": "lockgate.app.trained.open_trained",
    "audit RUN": "lockgate.app.audit.audit_run",
    "export RUN": "lockgate.app.export.export_run",
    "run --out RUN": "lockgate.runs.run.run",  # before there is a run folder
    "resume RUN": "lockgate.runs.run.resume",
}


@pytest.mark.parametrize(
    ("words", "at"), [*WORK.items(), *((words, WHILE_READ) for words in WORK)], ids=lambda value: value.split()[0]
)
def test_what_has_nothing_to_go_on_with_is_just_stopped(
    words: str, at: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(at, stopped)
    assert main(words.split()) == 130
    assert capsys.readouterr() == ("", "\nlockgate: stopped.\n")


@pytest.mark.parametrize("words", ["learn MODEL FOLDER", "reproduce gates"])
def test_what_goes_on_when_it_is_given_again_says_so(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("cat", "dog"):
        (tmp_path / "FOLDER" / name).mkdir(parents=True)
        Image.new("L", (8, 8)).save(tmp_path / "FOLDER" / name / "0.png")
    for work in ("lockgate.app.learn.learn", "lockgate.reproduction.reproduce.run_missing"):
        monkeypatch.setattr(work, stopped)
    assert main(words.split()) == 130
    assert re.fullmatch(r"\nlockgate: stopped\. Nothing is lost: give the same \w+ again\.\n", capsys.readouterr().err)
