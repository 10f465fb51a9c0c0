"""Examples whose images are somewhere else, and are fetched when they are looked at: some rows of many."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lockgate.data.cache import is_mapped, mapped
from lockgate.types import Batch, Examples


class RowExamples(Examples):
    """Some rows of images that sub-classes fetch."""

    def __init__(self, rows: Tensor, y: Tensor, task: Tensor) -> None:
        """``rows`` (N,) of the images, with label and task of each."""
        self.__dict__.update({"rows": rows, "y": y, "task": task})  # the class is frozen

    rows: Tensor

    def images(self, rows: Tensor) -> Tensor:
        """The images (N, C, H, W) uint8 at ``rows``, a tensor of their own."""
        raise NotImplementedError

    @property
    def x(self) -> Tensor:
        """All images, (N, C, H, W) uint8: fetched anew each time, so better asked for in ``parts``."""
        return self.images(self.rows)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(C, H, W)."""
        channels, height, width = self.images(self.rows[:1]).shape[1:]
        return channels, height, width

    def batch(self, index: Tensor | slice) -> Batch:
        """The examples at ``index``, and no others, as a Batch."""
        return Batch(self.images(self.rows[index]), self.y[index], self.task[index])

    def take(self, mask: Tensor) -> Self:
        """The examples where ``mask`` (N,) is true; no image is fetched."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__ | {name: getattr(self, name)[mask] for name in ("rows", "y", "task")})
        return made


class MappedExamples(RowExamples):
    """Rows of a file that is mapped into memory (``data/cache.py``)."""

    def __init__(self, pixels: npt.NDArray[np.uint8], rows: Tensor, y: Tensor, task: Tensor) -> None:
        super().__init__(rows, y, task)
        self.__dict__["pixels"] = pixels

    pixels: npt.NDArray[np.uint8]

    def images(self, rows: Tensor) -> Tensor:
        """Read from the file, or from what the operating system still has of it."""
        return torch.from_numpy(np.array(self.pixels[rows.numpy()]))

    def __reduce__(self) -> Any:
        """To another rank goes the name of the file, not its content."""
        assert isinstance(self.pixels, np.memmap)
        return _reopened, (str(self.pixels.filename), self.pixels.shape, self.rows, self.y, self.task)


def _reopened(file: str, shape: tuple[int, ...], rows: Tensor, y: Tensor, task: Tensor) -> MappedExamples:
    return MappedExamples(mapped(Path(file), shape), rows, y, task)


def examples_of(pixels: npt.NDArray[np.uint8], y: Tensor, task: int) -> Examples:
    """Images (N, C, H, W) with their labels: in memory, or where they are mapped, left there."""
    tasks = torch.full((len(y),), task)
    if is_mapped(pixels):
        return MappedExamples(pixels, torch.arange(len(y)), y, tasks)
    return Examples(torch.from_numpy(pixels), y, tasks)
