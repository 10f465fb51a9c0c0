"""Kill the learning of a task with SIGKILL again and again; after each kill the model must load and answer as before.

As ``killer.py``, from which it takes its tools, but for a model that grows. ``main`` prints one JSON object.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import torch
import yaml

from lockgate.app.audit import audit_run
from lockgate.app.model_dir import read_model
from lockgate.app.trained import open_trained
from lockgate.errors import CheckpointError, RunFolderError
from tests.support.folders import QUICK, bits, teach, write
from tests.support.killer import attempt, child, finish

IMAGES = torch.randint(0, 256, (9, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
SHORT, LONG = replace(QUICK, epochs=3), replace(QUICK, epochs=24)


def restless(model: Path) -> None:
    """From now on, a checkpoint after every step."""
    described = yaml.safe_load((model / "model.yaml").read_text())
    described["runtime"]["checkpoint_seconds"] = 0.0
    (model / "model.yaml").write_text("# restless\n" + yaml.safe_dump(described))


def answers(model: Path) -> dict[str, object]:
    """Everything the model says about some images, bit for bit."""
    trained = open_trained(model)
    with torch.no_grad():
        given = [trained.learner.predict(IMAGES, t).tolist() for t in range(len(trained.tasks))]
    return {"tasks": trained.tasks, "given": given, "free": trained.probabilities(IMAGES).tolist()}


def kill_after(seconds: float, work) -> bool:
    pid = child(work)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def second_refused(model: Path, folder: Path) -> dict[str, object]:
    """While one process learns, another asks to: how long it takes to say no, and what it says."""
    before = set((model / "checkpoints").glob("*-fit"))
    pid = child(lambda: teach(model, folder, LONG))
    while not set((model / "checkpoints").glob("*-fit")) - before:  # a new one: the first is at work
        time.sleep(0.01)
    start = time.monotonic()
    try:
        teach(model, folder, LONG)
        said = ""
    except RunFolderError as error:
        said = str(error)
    seconds = time.monotonic() - start
    running = os.waitpid(pid, os.WNOHANG)[0] == 0
    if running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return {"error": said, "seconds": seconds, "first was at work": running}


def main(folder: Path, kills: int) -> None:
    torch.set_num_threads(1)
    pets = write(folder / "pets", {"cat": 12, "dog": 12})
    tools = write(folder / "tools", {"axe": 24, "saw": 24})
    ships = write(folder / "ships", {"ferry": 12, "tug": 12})
    rng = random.Random(0)
    model, reference = folder / "model", folder / "reference"
    # The first task, killed at three instants: there is no model yet, and it can still be taught.
    loads = []
    for seconds in (0.02, 0.08, 0.15):
        if "learnt" not in loads:
            kill_after(seconds, lambda: teach(model, pets, SHORT))
        try:
            read_model(model)
            loads.append("learnt")
        except (CheckpointError, RunFolderError):
            loads.append("nothing yet")
    if loads[-1] != "learnt":  # on a fast machine the last kill may come too late
        finish(child(lambda: teach(model, pets, SHORT)))
    finish(child(lambda: teach(reference, pets, SHORT)))
    first_same = bits(model) == bits(reference)
    finish(child(lambda: teach(reference, tools, LONG)))

    restless(model)
    before = answers(model)
    kinds = ["in the middle of a step", "in the middle of a checkpoint", "between record and checkpoint", "any time"]
    done: list[str] = []
    changed: list[str] = []
    while len(done) < kills:
        kind = kinds[len(done) % len(kinds)]
        task_images = lambda: teach(model, tools, LONG)  # noqa: E731
        killed = (
            kill_after(rng.random() * 0.4, task_images)
            if kind == "any time"
            else attempt(kind, model, task_images, rng)
        )
        if not killed:
            break
        done.append(kind)
        if answers(model) != before:
            changed.append(kind)
    half = bool(list((model / "checkpoints").glob("*-fit")))
    refused = second_refused(model, tools)
    other = Path(shutil.copytree(model, folder / "other"))
    finish(child(lambda: teach(other, ships, SHORT)))
    finish(child(lambda: teach(model, tools, LONG)))
    print(
        json.dumps(
            {
                "first": loads,
                "first same": first_same,
                "kills": done,
                "changed": changed,
                "half": half,
                "refused": refused,
                "other": answers(other)["tasks"],
                "other audit": audit_run(other).ok,
                "same": bits(model) == bits(reference),
                "audit": audit_run(model).ok,
            }
        )
    )
