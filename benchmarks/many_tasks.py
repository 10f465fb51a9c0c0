"""A model of many tasks, each learnt by a call of its own: killed at random in some, undone in others.

    python benchmarks/many_tasks.py [--tasks 50] [--kills 10] [--undos 5] [--seed 0] [--folder DIR]

After every kill the model must answer as before; after every undo it must be what it was, bit for bit, and learn the
task again to the same bits. At the end the audit must pass, and what a task adds to the folder must not grow.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from lockgate.app.audit import audit_run
from lockgate.app.inspect import inspect_model
from lockgate.app.model_dir import ModelFolder
from lockgate.app.undo import undo

SIDE, IMAGES = 8, 8
FLAGS = ("--width=8", "--epochs=2", "--probes=4", "--keep=200", "--quiet", "--options.open_bias=0.0")
LATER = ("--epochs=2", "--probes=4", "--quiet")


@dataclass
class Found:
    """What was seen on the way."""

    kills: int = 0
    undos: int = 0
    changed: list[str] = field(default_factory=list)
    """Where a model was not what it should have been."""
    sizes: list[int] = field(default_factory=list)
    """Bytes of the network after each task, its memory and probes left out."""
    audit: str = ""
    ok: bool = False

    def growth(self) -> float:
        """What a task adds late, by what it adds early: the medians of the last and of the second fifth."""
        added, fifth = np.diff(self.sizes), max(1, len(self.sizes) // 5)
        return float(np.median(added[-fifth:]) / np.median(added[fifth : 2 * fifth]))


def write_task(folder: Path, task: int) -> Path:
    """A folder of two classes."""
    for name in ("a", "b"):
        place = folder / f"task {task:02d}" / f"{name}{task:02d}"
        place.mkdir(parents=True)
        rng = np.random.default_rng([task, ord(name)])
        pattern = rng.integers(0, 2, (SIDE, SIDE)) * 160
        for i in range(IMAGES):
            Image.fromarray((pattern + rng.integers(0, 90, (SIDE, SIDE))).astype(np.uint8)).save(place / f"{i}.png")
    return folder / f"task {task:02d}"


def bits(model: Path) -> bytes | None:
    """The newest state of a model; None: it has learnt nothing."""
    end = ModelFolder(model).end() if model.exists() else None
    return None if end is None else (end.path / "learner.safetensors").read_bytes()


def learn(model: Path, folder: Path, first: bool, kill_after: float | None = None) -> bool:
    """Call the command in a process of its own, maybe killed; whether it came to its end.

    The process is forked: importing torch takes longer than a task.
    """
    pid = os.fork()
    if pid == 0:
        os._exit(_quietly(["learn", str(model), str(folder), *(FLAGS if first else LATER)]))
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0


def _quietly(words: list[str]) -> int:
    from lockgate.cli.main import main

    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    return main(words)


def grow(folder: Path, tasks: int, kills: int, undos: int, seed: int, say: Callable[[str], None] = print) -> Found:
    """The whole life of a model."""
    rng, found, model = random.Random(seed), Found(), folder / "model"
    killed = set(rng.sample(range(1, tasks), kills))
    undone = set(rng.sample(range(1, tasks), undos))
    seconds = 1.0
    for task in range(tasks):
        images, before = write_task(folder, task), bits(model)
        if task in killed:
            ended = learn(model, images, task == 0, rng.uniform(0.1, 0.9) * seconds)
            found.kills += 1
            if not ended and bits(model) != before:
                found.changed.append(f"killed in task {task}")
        began = time.monotonic()
        if bits(model) == before and not learn(model, images, task == 0):
            found.changed.append(f"task {task} was not learnt")
        seconds = time.monotonic() - began if task not in killed else seconds
        if task in undone:
            learnt = bits(model)
            undo(model)
            found.undos += 1
            if bits(model) != before:
                found.changed.append(f"undone in task {task}")
            if not learn(model, images, task == 0) or bits(model) != learnt:
                found.changed.append(f"task {task} learnt again")
        found.sizes.append(inspect_model(model)["bytes"]["network"])
        seen = f"{found.kills} kills, {found.undos} undos, not as it should be: {found.changed or 'nothing'}"
        say(f"task {task + 1}/{tasks}: {found.sizes[-1]:,} bytes, {seconds:.1f} s; {seen}")
    verdict = audit_run(model)
    found.audit, found.ok = verdict.text(), verdict.ok and len(inspect_model(model)["tasks"]) == tasks
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--undos", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where images and model are made, and stay (default: nowhere)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as nowhere:
        folder = given.folder or Path(nowhere)
        found = grow(folder, given.tasks, given.kills, given.undos, given.seed)
    print(f"{found.kills} kills, {found.undos} undos; not as it should be: {found.changed or 'nothing'}")
    print(found.audit)
    print(f"a task adds {found.growth():.2f} times as much at the end as in the beginning")
    sys.exit(0 if found.ok and not found.changed else 1)


if __name__ == "__main__":
    main()
