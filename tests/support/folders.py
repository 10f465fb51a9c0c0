"""Small tasks for models that grow: folders of PNG files, each class a pattern of its own under noise."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from lockgate.app.learn import learn
from lockgate.app.model_dir import Model
from lockgate.app.user_settings import UserSettings
from lockgate.data.task_images import FolderImages

SIDE = 8
QUICK = UserSettings(width=8, epochs=3, batch_size=8, options={"open_bias": 0.0, "buffer": 20})


def images(name: str, count: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """``count`` noisy images (N, H, W) of the class ``name``."""
    pattern = np.random.default_rng(list(name.encode())).integers(0, 2, (SIDE, SIDE)) * 160
    noise = np.random.default_rng([seed, *name.encode()]).integers(0, 90, (count, SIDE, SIDE))
    return (pattern + noise).astype(np.uint8)


def write(folder: Path, classes: Mapping[str, int], seed: int = 0) -> Path:
    """A folder with so many images of each class."""
    for name, count in classes.items():
        (folder / name).mkdir(parents=True)
        for i, image in enumerate(images(name, count, seed)):
            Image.fromarray(image).save(folder / name / f"{i:03d}.png")
    return folder


def teach(model: Path, folder: Path, settings: UserSettings = QUICK, probes: int = 6, name: str = "") -> Model:
    """Learn one more task, without a word."""
    return learn(model, FolderImages(folder), name or folder.name, settings, probes, log=lambda _: None, quiet=True)


def bits(model: Path) -> str:
    """SHA-256 of the learner at the newest end of a task."""
    newest = max(p for p in (model / "checkpoints").iterdir() if p.name.endswith("-task"))
    return hashlib.sha256((newest / "learner.safetensors").read_bytes()).hexdigest()
