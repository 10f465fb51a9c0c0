"""Pictures large enough to be taken for photos: each class a pattern of colours of its own, moved and under noise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

HEIGHT, WIDTH = 72, 90
CELL = 18


def pictures(name: str, count: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """``count`` pictures (N, H, W, 3) of the class ``name``."""
    pattern = np.random.default_rng(list(name.encode())).integers(0, 220, (HEIGHT // CELL, WIDTH // CELL, 3))
    whole = np.kron(pattern, np.ones((CELL, CELL, 1), np.int64))
    rng = np.random.default_rng([seed, *name.encode()])
    moved = [np.roll(whole, rng.integers(0, 6, 2), (0, 1)) + rng.integers(0, 36, whole.shape) for _ in range(count)]
    return np.stack(moved).astype(np.uint8)


def write_pictures(folder: Path, classes: Sequence[str], count: int, seed: int = 0) -> Path:
    """A folder with ``count`` JPEGs of each class."""
    for name in classes:
        (folder / name).mkdir(parents=True)
        for i, picture in enumerate(pictures(name, count, seed)):
            Image.fromarray(picture).save(folder / name / f"{i:02d}.jpg", quality=95)
    return folder
