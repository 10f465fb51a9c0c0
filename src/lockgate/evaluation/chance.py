"""Was a task learnt at all? One that was not must not hide in an average."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch

from lockgate.evaluation.accuracy import predictions
from lockgate.methods.base import Method
from lockgate.types import Task

FEWEST = 20
"""Held-out images by which a task can be told from guessing, at least."""
SIGMAS = 2.0


def at_chance(right: Sequence[int], images: Sequence[int]) -> bool:
    """Whether one that has learnt nothing could have got so many ``right`` of the ``images`` of each class.

    By both measures: its accuracy is not above that of always naming the largest class, and the mean over classes is
    not above that of guessing. Where classes are alike these are one. Where they are not, either alone would blame
    somebody who has learnt: who pays attention to rare classes at the cost of others, or who knows all but a rare one.
    """
    counted = [n for n in images if n]
    total, classes = sum(counted), len(counted)
    if classes < 2 or total < FEWEST:
        return False
    largest, guessed = max(counted) / total, 1 / classes
    mean = sum(r / n for r, n in zip(right, images, strict=True) if n) / classes
    spread = guessed * (1 - guessed) * sum(1 / n for n in counted) / classes**2
    return _within(sum(right) / total, largest, largest * (1 - largest) / total) and _within(mean, guessed, spread)


def _within(found: float, chance: float, variance: float) -> bool:
    return found <= chance + SIGMAS * math.sqrt(variance)


def unlearnt(learner: Method, tasks: Iterable[Task]) -> dict[str, float]:
    """Of the tasks just learnt, those that are at chance on their own held-out images, the task given.

    By the number of the task, as text, its accuracy.
    """
    found: dict[str, float] = {}
    for task in tasks:
        if not len(task.val):
            continue
        y, classes = task.val.y, len(task.classes)
        known = predictions(learner, task.val, task.id) == y
        right, images = (torch.bincount(part, minlength=classes).tolist() for part in (y[known], y))
        if at_chance(right, images):
            found[str(task.id)] = sum(right) / len(y)
    return found
