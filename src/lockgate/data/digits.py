"""The UCI handwritten digits embedded in scikit-learn: 8x8 grey, no download. One fixed split."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lockgate.config import DataConfig
from lockgate.data.arrays import Arrays, Dataset, DataSize

SPLIT_SEED = 0  # part of the data set's definition, hence not an option
TRAIN_SHARE = 0.8
DARKEST = 16  # the files count ink pixels in 4x4 blocks: 0 .. 16


def size(data_dir: Path | None, config: DataConfig) -> DataSize:
    """As published; the arguments are not used."""
    return DataSize(images_per_class=144, classes=10, side=8, channels=1)


def read(data_dir: Path | None, config: DataConfig) -> Dataset:
    """1,797 digits as (N, 1, 8, 8), four fifths of each class for training; the arguments are not used."""
    from sklearn.datasets import load_digits  # late: slow to import

    source = load_digits()
    x = np.rint(source.images * (255 / DARKEST)).astype(np.uint8)[:, None]  # (N, 1, 8, 8)
    y = source.target.astype(np.int64)
    rng = np.random.default_rng(SPLIT_SEED)
    train = np.zeros(len(y), bool)
    for label in range(10):
        members = rng.permutation(np.flatnonzero(y == label))
        train[members[: round(TRAIN_SHARE * len(members))]] = True
    classes = tuple(str(digit) for digit in range(10))
    return Dataset("digits", classes, Arrays(x[train], y[train]), Arrays(x[~train], y[~train]))
