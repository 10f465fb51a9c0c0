"""A wheel, in an environment that has its dependencies and nothing of this checkout, used from another folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
TINY = ["--dataset", "synthetic", "--data.synthetic_classes", "2", "--data.synthetic_per_class", "6", "--tasks", "1"]
TINY += ["--epochs", "1", "--model.width", "4", "--optim.batch_size", "4", "--out", "run"]


def _output(*words: str | Path, folder: Path) -> str:
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(word) for word in words], cwd=folder, env=alone, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: what an earlier build left in this checkout would be packed too."""
    copy = tmp_path_factory.mktemp("checkout")
    shutil.copytree(TOP / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(TOP / name, copy)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _output(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", copy / "dist", copy, folder=copy)
    (made,) = (copy / "dist").glob("lockgate-*.whl")
    return made


def test_a_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("lockgate/")}
    source = TOP / "src"
    wanted = {path.relative_to(source).as_posix() for path in (source / "lockgate").rglob("*") if path.is_file()}
    assert packed == {name for name in wanted if "__pycache__" not in name}
    assert "lockgate/py.typed" in packed


def test_it_runs_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    scripts = environment / ("Scripts" if sys.platform == "win32" else "bin")
    (packages,) = environment.rglob("site-packages")
    ours = [place for place in sys.path if place.endswith("site-packages")]
    # Their own .pth files are not read, and so not the one of this checkout.
    (packages / "dependencies.pth").write_text("\n".join(ours))
    pip = [sys.executable, "-m", "pip", "--python", environment, "--quiet", "--disable-pip-version-check"]
    _output(*pip, "install", "--no-deps", "--ignore-installed", "--no-compile", wheel, folder=tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    where = _output(scripts / "python", "-c", "import lockgate; print(lockgate.__file__)", folder=empty)
    assert Path(where.strip()).is_relative_to(environment)
    assert "audit passed" in _output(scripts / "lockgate", "run", *TINY, folder=empty)
    assert (empty / "run" / "report.html").is_file()
