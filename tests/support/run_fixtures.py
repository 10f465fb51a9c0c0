"""Tiny runs, made once a session and copied: a finished one, and one that stopped before its last task ended."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from lockgate.config import DataConfig, Experiment, ModelConfig, OptimConfig, RuntimeConfig
from lockgate.runs.run import run
from tests.support import tiny as tiny_world


def tiny_experiment(**changes: Any) -> Experiment:
    """Two tasks of two classes, two epochs of two steps each; a tenth of a second."""
    optim = changes.pop("optim", {})
    values: dict[str, Any] = {
        "method": "finetune",
        "dataset": "synthetic",
        "tasks": 2,
        "epochs": 2,
        "data": DataConfig(synthetic_classes=4, synthetic_per_class=20),
        "model": ModelConfig(width=8),
        "optim": OptimConfig(**{"batch_size": 16, **optim}),
        "runtime": RuntimeConfig(threads=1),
    }
    return Experiment(**{**values, **changes})


@pytest.fixture(autouse=True)
def _process_as_it_was() -> Iterator[None]:
    """Runs set the number of threads, and tests draw at random; the next test should not notice."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Experiment]:
    return tiny_experiment


@pytest.fixture(scope="session")
def _finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("session") / "run"
    threads = torch.get_num_threads()
    run(tiny_experiment(), out)
    torch.set_num_threads(threads)
    return out


@pytest.fixture
def finished(_finished: Path, tmp_path: Path) -> Path:
    """A finished run; its checkpoints are 3-task, 5-fit, 6-task."""
    return Path(shutil.copytree(_finished, tmp_path / "finished"))


@pytest.fixture
def stopped(_finished: Path, tmp_path: Path) -> Path:
    """The same run, as it was on disk just before the end of its last task: 3-task, 5-fit."""
    out = Path(shutil.copytree(_finished, tmp_path / "stopped"))
    shutil.rmtree(out / "checkpoints" / "000006-task")
    (out / "summary.json").unlink()
    lines = (out / "records.jsonl").read_text().splitlines(keepends=True)
    (out / "records.jsonl").write_text("".join(lines[:-1]))
    return out


@pytest.fixture(scope="session")
def tree() -> Callable[[Path], dict[str, str]]:
    """Every file below a folder with its SHA-256, without the lock."""

    def hashes(folder: Path) -> dict[str, str]:
        files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != ".lock"]
        return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}

    return hashes


@pytest.fixture(scope="session")
def sign() -> Callable[[Path], None]:
    """Makes a checkpoint's manifest fit its files again."""
    return tiny_world.sign


@pytest.fixture(scope="session")
def last_bits() -> Callable[[Path], bytes]:
    """The learner at the end of a run's last task, byte for byte."""

    def read(out: Path) -> bytes:
        newest = max(p for p in (out / "checkpoints").iterdir() if p.name.endswith("-task"))
        return (newest / "learner.safetensors").read_bytes()

    return read
