"""Seeded images for tests and benchmarks: a smooth prototype per class, moved, dimmed, and covered with clutter.

The clutter is as smooth as the prototypes, so averaging neighbouring pixels does not remove it: learnable, not trivial.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from lockgate.config import DataConfig
from lockgate.data.arrays import Arrays, Dataset, DataSize

CHANNELS, SIDE, COARSE = 3, 16, 4
REACH = 2  # pixels a prototype moves along each axis
SIGNAL, CLUTTER, NOISE = 50.0, 50.0, 25.0  # amplitudes in grey levels

Floats = npt.NDArray[np.float32]


def size(data_dir: Path | None, config: DataConfig) -> DataSize:
    """As ``config`` has it."""
    return DataSize(config.synthetic_per_class, config.synthetic_classes, SIDE, CHANNELS)


def read(data_dir: Path | None, config: DataConfig) -> Dataset:
    """``synthetic_classes`` classes of (3, 16, 16) images from ``class_seed``; no files are read.

    A class draws from its own generator, so asking for more classes leaves the first ones as they were.
    """
    splits = []
    for part, count in enumerate((config.synthetic_per_class, config.synthetic_per_class // 5)):
        x = np.empty((config.synthetic_classes, count, CHANNELS, SIDE, SIDE), np.uint8)
        for label in range(config.synthetic_classes):
            prototype = _smooth(1, np.random.default_rng((config.class_seed, label)))[0]
            x[label] = _images(prototype, count, np.random.default_rng((config.class_seed, label, 1 + part)))
        y = np.repeat(np.arange(config.synthetic_classes), count)
        splits.append(Arrays(x.reshape(-1, CHANNELS, SIDE, SIDE), y.astype(np.int64)))
    return Dataset("synthetic", tuple(f"class {i}" for i in range(config.synthetic_classes)), *splits)


def _smooth(count: int, rng: np.random.Generator) -> Floats:
    """White noise on a coarse torus, interpolated linearly: smooth, also across opposite edges. (count, C, H, W)"""
    coarse = rng.standard_normal((count, CHANNELS, COARSE, COARSE), dtype=np.float32)
    place = np.arange(SIDE) * COARSE / SIDE  # position of each fine pixel among the coarse ones
    distance = np.abs(place[:, None] - np.arange(COARSE))
    weight = np.maximum(0, 1 - np.minimum(distance, COARSE - distance)).astype(np.float32)  # (SIDE, COARSE)
    return np.asarray(weight @ coarse @ weight.T, np.float32)


def _images(prototype: Floats, count: int, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    along = (np.arange(SIDE) - np.arange(-REACH, REACH + 1)[:, None]) % SIDE  # (steps, SIDE): from where a pixel moves
    moved = prototype[:, along[:, None, :, None], along[None, :, None, :]].reshape(CHANNELS, -1, SIDE, SIDE)
    moved = moved.swapaxes(0, 1)  # (steps * steps, C, H, W)
    signal = moved[rng.integers(len(moved), size=count)]  # (count, C, H, W)
    contrast = rng.uniform(0.5, 1.0, (count, 1, 1, 1)).astype(np.float32)
    noise = rng.standard_normal(signal.shape, dtype=np.float32)
    levels = 128 + SIGNAL * contrast * signal + CLUTTER * _smooth(count, rng) + NOISE * noise
    return np.asarray(np.clip(np.rint(levels), 0, 255), np.uint8)
