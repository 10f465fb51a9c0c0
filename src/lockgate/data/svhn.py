"""SVHN (Netzer et al., 2011), cropped digits: two MATLAB files with X (32, 32, 3, N) and y (N, 1).

The release calls the digit zero "10"; here it is 0 again. Its `extra` set is not read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lockgate.config import DataConfig
from lockgate.data.arrays import Arrays, Dataset, DataSize, UnreadArrays
from lockgate.data.source import Release, locate
from lockgate.errors import DataError

FOLDERS = ("svhn", "SVHN", "")
MIRRORS = ("https://ufldl.stanford.edu/housenumbers/", "http://ufldl.stanford.edu/housenumbers/")
FILES = (
    Release("train_32x32.mat", "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8", MIRRORS),
    Release("test_32x32.mat", "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b", MIRRORS),
)
SHAPE = (32, 32, 3)
REMEDY = "Replace it by the official file."


def size(data_dir: Path | None, config: DataConfig) -> DataSize:
    """As published; the arguments are not used."""
    return DataSize(images_per_class=7326, classes=10, side=32, channels=3)


def read(data_dir: Path | None, config: DataConfig) -> Dataset:
    """SVHN as (N, 3, 32, 32) images; ``config`` is not used."""
    train, test = FILES
    return Dataset(
        "svhn",
        tuple(str(digit) for digit in range(10)),
        _split(*locate([train], data_dir, FOLDERS)),
        UnreadArrays(lambda: _split(*locate([test], data_dir, FOLDERS))),
    )


def _split(path: Path) -> Arrays:
    from scipy.io import loadmat  # late: slow to import

    try:
        content = loadmat(path, variable_names=["X", "y"])
    except Exception as error:  # a damaged .mat makes scipy raise almost anything: zlib, struct, Value-, TypeError ...
        raise DataError(f"Cannot read {path}: {error}. It is truncated or damaged. {REMEDY}") from error
    if "X" not in content or "y" not in content:
        raise DataError(f"{path} must hold the variables X and y. Got {_variables(content)} instead. {REMEDY}")
    x, labels = np.asarray(content["X"]), np.asarray(content["y"]).reshape(-1)
    if x.ndim != 4 or x.shape[:3] != SHAPE or x.dtype != np.uint8:
        raise DataError(f"X in {path} must be (32, 32, 3, N) of uint8. Got {x.shape} of {x.dtype} instead. {REMEDY}")
    if x.shape[3] != len(labels) or len(labels) == 0:
        raise DataError(
            f"{path} holds {x.shape[3]:,} images and {len(labels):,} labels; wanted the same number, at least one. "
            f"{REMEDY}"
        )
    wrong = ~np.isin(labels, np.arange(1, 11))
    if wrong.any():
        where = int(wrong.argmax())
        raise DataError(f"{path} holds the label {labels[where]} at position {where}; wanted 1 to 10. {REMEDY}")
    y = labels.astype(np.int64) % 10
    return Arrays(np.ascontiguousarray(x.transpose(3, 2, 0, 1)), y)  # (32, 32, 3, N) -> (N, 3, 32, 32)


def _variables(content: dict[str, object]) -> str:
    return ", ".join(name for name in content if not name.startswith("__")) or "neither"
