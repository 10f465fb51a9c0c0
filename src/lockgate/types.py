"""The values that walk through the modules: named tuples and frozen dataclasses, nothing that trains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

Losses = dict[str, Tensor]
"""Named scalar terms of an objective; the loop minimises their sum and records each."""


State = dict[str, Tensor]
"""Named tensors: what a module is, as ``state_dict`` gives it."""


class Batch(NamedTuple):
    """What a method sees in one step. Labels are local to their task: 0 .. classes-1."""

    x: Tensor  # (B, C, H, W) uint8
    y: Tensor  # (B,) int64, label within its task
    task: Tensor  # (B,) int64, index of the task


@dataclass(frozen=True)
class Examples:
    """Labelled images, indexed by batch: one gather a step, no per-sample work. In RAM, or in sub-classes elsewhere."""

    x: Tensor  # (N, C, H, W) uint8
    y: Tensor  # (N,) int64, label within its task
    task: Tensor  # (N,) int64

    def __len__(self) -> int:
        return len(self.y)

    def batch(self, index: Tensor | slice) -> Batch:
        """The examples at ``index`` as a Batch."""
        return Batch(self.x[index], self.y[index], self.task[index])

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(C, H, W)."""
        channels, height, width = self.x.shape[1:]
        return channels, height, width

    def take(self, mask: Tensor) -> Examples:
        """The examples where ``mask`` (N,) is true."""
        return Examples(self.x[mask], self.y[mask], self.task[mask])

    def parts(self, size: int) -> Iterator[Tensor]:
        """The images in order, ``size`` at a time."""
        return (self.batch(slice(start, start + size)).x for start in range(0, len(self), size))

    @staticmethod
    def union(parts: list[Examples]) -> Examples:
        """All examples of several sets, in order."""
        return Examples(
            torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts]), torch.cat([p.task for p in parts])
        )


@dataclass(frozen=True)
class Task:
    """One classification problem of the sequence. ``classes[y]`` is the data set's own label of local label ``y``."""

    id: int
    classes: tuple[int, ...]
    train: Examples
    val: Examples
    test: Examples
    parts: tuple[Task, ...] = ()
    """The tasks this one unites, in the joint view (``scenario.join``); empty for an ordinary task."""
    probes: Examples | None = None
    """Images on which the answers are promised to stay; None: the test images."""
    weights: tuple[float, ...] = ()
    """What an image of each class counts in the class loss; empty: all count the same."""

    @property
    def audit_images(self) -> Examples:
        """The images on which the answers are promised to stay."""
        return self.test if self.probes is None else self.probes

    @property
    def heads(self) -> tuple[int, ...]:
        """How many classes each head that this task adds must tell apart."""
        return tuple(len(part.classes) for part in self.parts or (self,))
