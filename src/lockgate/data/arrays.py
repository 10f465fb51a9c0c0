"""What every reader returns: uint8 images and integer labels as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Arrays:
    """One split of a data set."""

    x: npt.NDArray[np.uint8]  # (N, C, H, W)
    y: npt.NDArray[np.int64]  # (N,), 0 .. classes-1


@dataclass(frozen=True)
class Dataset:
    """A named data set with the names of its classes, in label order."""

    name: str
    classes: tuple[str, ...]
    train: Arrays
    test: Arrays
