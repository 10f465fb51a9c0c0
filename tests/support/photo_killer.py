"""A model from the pretrained start, taught arrays: killed while it learns, taught again, damaged, taken back.

``main`` prints one JSON object. The last features alone are read: a smaller matrix, the same code.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from lockgate import ContinualClassifier
from lockgate.app.audit import audit_run
from lockgate.app.model_dir import read_model
from lockgate.errors import CheckpointError
from lockgate.runs import checkpoint
from tests.support.folders import bits
from tests.support.model_killer import kill_after
from tests.support.pictures import pictures

TASKS = {"fruit": ("apple", "pear"), "greens": ("leek", "kale")}


def learn(path: Path, task: str) -> ContinualClassifier:
    x = np.concatenate([pictures(name, 6) for name in TASKS[task]])
    model = ContinualClassifier(path, verbose=False, options={"features": "last"})
    return model.learn(x, np.repeat(TASKS[task], 6), name=task)


def damaged(path: Path) -> str:
    """What is said of a model of which one bit of the newest state is another."""
    end = checkpoint.newest_end(path / "checkpoints")
    assert end is not None
    file = end.path / "learner.safetensors"
    whole = bytearray(file.read_bytes())
    whole[-9] ^= 1
    file.write_bytes(whole)
    try:
        ContinualClassifier(path).predict(pictures("kale", 1))
    except CheckpointError as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    path = folder / "model"
    model, unseen = learn(path, "fruit"), pictures("pear", 3, seed=1)
    first, before = bits(path), model.predict_proba(unseen, task="fruit", exact=True)
    found = {
        "killed": kill_after(0.3, lambda: learn(path, "greens")),
        "as it was": bits(path) == first,
        "method": read_model(path).experiment.method,
    }
    model = learn(path, "greens")
    after = model.predict_proba(unseen, task="fruit", exact=True)[:, :2]
    state = read_model(path).end.tensors("learner") or {}
    found |= {
        "same": bool((before == after).all()),
        "kale": model.predict(pictures("kale", 3, seed=1)).tolist(),
        "images kept": sum(value.dtype == torch.uint8 for value in state.values()),
        "audit": audit_run(path).ok,
        "said of damage": damaged(path),
        "removed": ContinualClassifier(path).undo(),
        "back": bits(path) == first and audit_run(path).ok,
    }
    print(json.dumps(found))
