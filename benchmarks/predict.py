"""`lockgate predict` on many small images, beside an earlier version; and what opening a model of many tasks costs.

    python benchmarks/predict.py [--images 10000] [--old DIR]      DIR: the folder `src` of an earlier version

One core, one model, one process for each version, turn by turn: each asks for the CPU seconds of its own work, opening
the model included, after its imports. Ratios are of those. The model is learnt as `lockgate learn` does it when nothing
is said; `--epochs` makes it sooner, and less sparse.

What opening costs is told three times: of the call alone, which reads and checks the files; with the network made,
which the first question does; and of a whole process that opens the model and answers one image, which is what whoever
types a command waits for.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

SIDE, TASKS, CLASSES = 28, 5, 2
ASK = """
import contextlib, io, sys, time
try:
    from lockgate.cli.main import main
    from lockgate.app import predict, trained
except ImportError:
    from lockgate.cli import main
    from lockgate import predict
    from lockgate.engine import trained
import torch
torch.set_num_threads(1)
began, out = time.process_time(), io.StringIO()
with contextlib.redirect_stdout(out):
    code = main(sys.argv[1:])
print(code, time.process_time() - began, out.getvalue().count("\\n"))
"""
OPEN = """
import sys, time
from pathlib import Path
from lockgate.app.trained import open_trained
import torch
torch.set_num_threads(1)
for path in sys.argv[1:]:
    open_trained(Path(path)).learner
for _ in range(7):
    for path in sys.argv[1:]:
        began = time.process_time()
        opened = open_trained(Path(path))
        read = time.process_time()
        opened.learner
        print(path, read - began, time.process_time() - began, sep="|")
"""
WHOLE = """
import contextlib, os, sys
from lockgate.cli.main import main
with contextlib.redirect_stdout(sys.stderr):
    code = main(["predict", *sys.argv[1:]])
print(sum(os.times()[:2]))
sys.exit(code)
"""


def pictures(task: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of a few patterns under noise, (N, H, W), and the class of each."""
    rng = np.random.default_rng(task)
    patterns = np.kron(rng.integers(0, 2, (CLASSES, 7, 7)) * 150, np.ones((4, 4)))
    labels = np.arange(count) % CLASSES
    return (patterns[labels] + rng.integers(0, 100, (count, SIDE, SIDE))).astype(np.uint8), labels


def write(folder: Path, task: int, count: int) -> Path:
    """The images of a task as files, a sub-folder a class."""
    x, y = pictures(task, count)
    for i, (image, label) in enumerate(zip(x, y, strict=True)):
        place = folder / f"task {task}" / f"{task}-{label}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{i:05d}.png")
    return folder / f"task {task}"


def write_mixed(folder: Path, count: int) -> Path:
    """Images of all tasks as files in one folder, in no order."""
    folder.mkdir()
    x = np.concatenate([pictures(task, count // TASKS)[0] for task in range(TASKS)])
    for place, i in enumerate(np.random.default_rng(0).permutation(len(x))):
        Image.fromarray(x[i]).save(folder / f"{place:05d}.png")
    return folder


def call(code: str, words: list[str], source: Path | None) -> str:
    """What a process prints that runs ``code`` with the version of Lockgate in ``source``."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    done = subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout


def learn(model: Path, folders: list[Path], source: Path | None, flags: list[str]) -> None:
    """Make a model, by the older version if there is one: the newer reads it."""
    for folder in folders:
        call(ASK, ["learn", str(model), str(folder), *flags], source)


def throughput(model: Path, images: Path, old: Path | None, rounds: int) -> dict[str, float]:
    """CPU seconds of predicting a folder, the median of some rounds in one order and the other, by version."""
    seconds: dict[str, list[float]] = {}
    versions: list[tuple[str, Path | None, list[str]]] = [("compiled", None, []), ("exact", None, ["--exact"])]
    versions += [("old", old, [])] if old else []
    for number in range(rounds):
        for name, source, flags in versions[:: -1 if number % 2 else 1]:
            code, took, lines = call(ASK, ["predict", str(model), str(images), *flags], source).split()
            assert (code, int(lines) > 1) == ("0", True), (name, code, lines)
            seconds.setdefault(name, []).append(float(took))
    return {name: statistics.median(values) for name, values in seconds.items()}


def opening(few: Path, many: Path) -> list[tuple[float, float]]:
    """CPU seconds of opening ``few`` and ``many``: of the call, and with the network made."""
    lines = [line.split("|") for line in call(OPEN, [str(few), str(many)], None).splitlines()]

    def took(path: Path, column: int) -> float:
        return statistics.median(float(line[column]) for line in lines if line[0] == str(path))

    return [(took(few, column), took(many, column)) for column in (1, 2)]


def answering(few: Path, many: Path, image: Path, rounds: int) -> float:
    """CPU seconds of a process that opens ``many`` and answers one image, by those of one that opens ``few``."""
    took: dict[Path, list[float]] = {few: [], many: []}
    for _ in range(rounds):
        for model in took:
            took[model].append(float(call(WHOLE, [str(model), str(image)], None)))
    return statistics.median(took[many]) / statistics.median(took[few])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--old", type=Path, help="the folder `src` of an earlier version")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="of the model that is asked (default: as `lockgate learn` chooses)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folders = [write(folder, task, 80) for task in range(TASKS)]
        learn(folder / "model", folders, given.old, [f"--epochs={given.epochs}"] if given.epochs else [])
        asked = {"one task": write(folder / "asked", 0, given.images)}
        asked["five tasks mixed"] = write_mixed(folder / "mixed", given.images)
        for what, images in asked.items():
            found = throughput(folder / "model", images, given.old, given.rounds)
            for version, seconds in found.items():
                rate = f"{given.images / seconds:8.0f} images a CPU second"
                print(f"{what}: {version:9} {rate}, {found['compiled'] / seconds:.2f} of compiled")
        more = [write(folder / "more", task, 8) for task in range(20)]
        flags = ["--epochs", "1", "--width", "32"]
        learn(folder / "two", more[:2], None, flags)
        learn(folder / "twenty", more, None, flags)
        few, many = folder / "two", folder / "twenty"
        for what, (small, large) in zip(("opening", "with the network made"), opening(few, many), strict=True):
            print(f"{what}: {1000 * small:.1f} ms of 2 tasks, {1000 * large:.1f} of 20, {large / small:.2f}x")
        image = min(more[0].rglob("*.png"))
        print(f"a process that opens and answers one image: {answering(few, many, image, given.rounds):.2f}x")


if __name__ == "__main__":
    main()
