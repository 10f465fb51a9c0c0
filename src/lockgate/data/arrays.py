"""What every reader returns: uint8 images and integer labels as numpy arrays, the test images unread until wanted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class DataSize:
    """How large a data set is."""

    images_per_class: int
    """For training, those that will be held out included; the mean, where classes differ."""
    classes: int
    side: int
    """The longer side of an image, in pixels."""
    channels: int


@dataclass(frozen=True)
class Arrays:
    """One split of a data set."""

    x: npt.NDArray[np.uint8]  # (N, C, H, W)
    y: npt.NDArray[np.int64]  # (N,), 0 .. classes-1


class UnreadArrays(Arrays):
    """A split that is read when it is first looked at: test files that nobody asks for are never opened."""

    def __init__(self, read: Callable[[], Arrays]) -> None:
        object.__setattr__(self, "_read", read)

    @functools.cached_property
    def _arrays(self) -> Arrays:
        read: Callable[[], Arrays] = self.__dict__["_read"]
        return read()

    @property
    def x(self) -> npt.NDArray[np.uint8]:
        """Images (N, C, H, W)."""
        return self._arrays.x

    @property
    def y(self) -> npt.NDArray[np.int64]:
        """Labels (N,)."""
        return self._arrays.y


@dataclass(frozen=True)
class Dataset:
    """A named data set with the names of its classes, in label order."""

    name: str
    classes: tuple[str, ...]
    train: Arrays
    test: Arrays
    """Never looked at in a scenario that is evaluated on held-out images."""
