"""Finished runs and a model of two tasks, made by the command itself, and copied by each test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tests.support.folders import write

from lockgate.cli.main import main

TINY = [
    "--dataset=synthetic",
    "--data.synthetic-classes=4",
    "--data.synthetic-per-class=20",
    "--tasks=2",
    "--epochs=2",
    "--model.width=8",
    "--optim.batch-size=16",
    "--runtime.threads=1",
]
QUICK = ["--width=8", "--epochs=3", "--batch-size=8", "--options.open_bias=0.0"]


@pytest.fixture(autouse=True)
def _threads_as_they_were() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny_flags() -> list[str]:
    return list(TINY)


def _made(folder: Path, method: str) -> Path:
    out = folder / method
    assert main(["run", *TINY, f"--method={method}", f"--out={out}"]) == 0
    return out


@pytest.fixture(scope="session")
def _ccgn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _made(tmp_path_factory.mktemp("session"), "ccgn")


@pytest.fixture(scope="session")
def _finetune(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _made(tmp_path_factory.mktemp("session"), "finetune")


@pytest.fixture
def ccgn(_ccgn: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(_ccgn, tmp_path / "ccgn"))


@pytest.fixture
def finetune(_finetune: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(_finetune, tmp_path / "finetune"))


@pytest.fixture(scope="session")
def _taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("taught")
    write(folder / "pets", {"cat": 12, "dog": 12})
    write(folder / "tools", {"axe": 24, "saw": 10})
    for name in ("pets", "tools"):
        assert main(["learn", str(folder / "model"), str(folder / name), *QUICK]) == 0
    return folder


@pytest.fixture
def taught(_taught: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(_taught, tmp_path / "taught"))


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call the command in this process: exit code, stdout, stderr."""

    def call(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call
