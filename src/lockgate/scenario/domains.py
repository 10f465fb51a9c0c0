"""Domain-incremental tasks: the same classes again and again, each task's images changed in a way of its own.

permuted    task t sees all pixels in another fixed order (Goodfellow et al. 2013); task 0 sees images as they are
rotated     task t sees images turned by t * 180 / T degrees, counter-clockwise (Lopez-Paz and Ranzato 2017 draw angles
            between 0 and 180; here they are evenly spaced)

Both move pixels and do nothing else, so images stay bytes and a task is a table of positions: the images themselves
are in memory once, for all tasks.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lockgate.scenario.rows import RowExamples
from lockgate.training.seeding import generator

Kind = Literal["permuted", "rotated"]


def pixel_sources(kind: Kind, task: int, tasks: int, height: int, width: int, seed: int) -> Tensor | None:
    """For each pixel of ``task``'s images, (H * W,), the pixel it shows; -1: none, it is black. None: as it is."""
    if task == 0:
        return None
    if kind == "permuted":
        return torch.randperm(height * width, generator=generator(seed, "permutation", task))
    # Pillow turns a picture of the pixels' own numbers: its nearest neighbour, and 0 where there is none.
    numbers = Image.fromarray(np.arange(1, height * width + 1, dtype=np.int32).reshape(height, width))
    turned = np.asarray(numbers.rotate(angle(task, tasks)), np.int64)
    return torch.from_numpy(turned).flatten() - 1


def angle(task: int, tasks: int) -> float:
    """By how many degrees ``task``'s images are turned."""
    return task * 180 / tasks


def moved(x: Tensor, sources: Tensor | None) -> Tensor:
    """Images ``x`` (B, C, H, W) with their pixels where ``pixel_sources`` has them."""
    if sources is None:
        return x
    flat = x.flatten(2)[:, :, sources.clamp(min=0)]  # (B, C, H * W)
    flat[:, :, sources < 0] = 0
    return flat.view_as(x)


class MovedExamples(RowExamples):
    """Some of the images that several tasks share, as one task sees them; made when they are looked at."""

    def __init__(self, shared: Tensor, rows: Tensor, y: Tensor, task: int, sources: Tensor | None) -> None:
        """``rows`` of the images ``shared`` (N, C, H, W), with the label ``y`` of each row."""
        super().__init__(rows, y, torch.full((len(y),), task))
        self.__dict__.update({"shared": shared, "sources": sources})  # the class is frozen

    shared: Tensor
    sources: Tensor | None

    def images(self, rows: Tensor) -> Tensor:
        """Those of ``shared``, moved."""
        return moved(self.shared[rows], self.sources)
