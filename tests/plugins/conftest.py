"""An outsider's folder, with modules and packages of his own, and Lockgate's registries as they were afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from tests.support import fresh_process

from lockgate.backbones import BACKBONES
from lockgate.cli.main import main
from lockgate.data import DATASETS
from lockgate.methods import METHODS

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, which nobody but Python's own rules makes importable; what is imported there is dropped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def write(outside: Path) -> Callable[[str, str], Path]:
    """Writes a module into the outsider's folder."""

    def written(name: str, text: str) -> Path:
        file = outside / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
        return file

    return written


@pytest.fixture
def install(outside: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, dict[str, str]], Path]:
    """Puts a package with entry points on the path, as an installer would leave it."""

    def installed(package: str, entry_points: str, modules: dict[str, str]) -> Path:
        site = outside / f"site-{package}"
        info = site / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(dedent(entry_points))
        for name, text in modules.items():
            (site / name).write_text(dedent(text))
        monkeypatch.syspath_prepend(str(site))
        return site

    return installed


@pytest.fixture(autouse=True)
def _registries_as_they_were() -> Iterator[None]:
    before = [list(registry) for registry in (METHODS, DATASETS, BACKBONES)]
    yield
    for registry, names in zip((METHODS, DATASETS, BACKBONES), before, strict=True):
        for name in set(registry) - set(names):
            registry.unregister(name)


@pytest.fixture
def command(outside: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``lockgate`` in a process of its own, in the outsider's folder, which is not on the path."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: str, path: str = "") -> subprocess.CompletedProcess[str]:
        return fresh_process.call(main, words, folder=outside, path=[path] if path else [])

    return call
