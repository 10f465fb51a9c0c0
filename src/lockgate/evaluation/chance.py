"""Was a task learnt at all? One that was not must not hide in an average."""

from __future__ import annotations

import math
from collections.abc import Iterable

from lockgate.evaluation.accuracy import accuracy
from lockgate.methods.base import Method
from lockgate.types import Task

FEWEST = 20
"""Held-out images by which a task can be told from guessing, at least."""
SIGMAS = 2.0


def at_chance(right: float, classes: int, images: int) -> bool:
    """Whether an accuracy on so many images is what guessing among so many classes could have got."""
    if classes < 2 or images < FEWEST:
        return False
    chance = 1 / classes
    return right <= chance + SIGMAS * math.sqrt(chance * (1 - chance) / images)


def unlearnt(learner: Method, tasks: Iterable[Task]) -> dict[str, float]:
    """Of the tasks just learnt, those that are at chance on their own held-out images, the task given.

    By the number of the task, as text, its accuracy.
    """
    found: dict[str, float] = {}
    for task in tasks:
        right = accuracy(learner, task.val, task.id) if len(task.val) else 1.0
        if at_chance(right, len(task.classes), len(task.val)):
            found[str(task.id)] = right
    return found
