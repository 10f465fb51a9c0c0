"""Accuracy on every task seen, with and without the task given; averages, backward transfer and forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from lockgate.methods.base import Learner
from lockgate.types import Examples, Task

BATCH = 512
Matrix = list[list[float]]


@torch.no_grad()
def accuracy(learner: Learner, examples: Examples, task: int | None, offset: int = 0) -> float:
    """Share of ``examples`` classified right. Without a task, their classes begin at ``offset`` among all seen."""
    learner.eval()
    device = learner.input.mean.device
    right = 0
    for start in range(0, len(examples), BATCH):
        x, y, _ = examples.batch(slice(start, start + BATCH))
        right += int((learner.predict(x.to(device), task).argmax(1).cpu() == y + offset).sum())
    return right / len(examples)


def task_incremental(learner: Learner, tasks: Sequence[Task]) -> list[float]:
    """Test accuracy on each task, the task given."""
    return [accuracy(learner, task.test, task.id) for task in tasks]


def class_incremental(learner: Learner, tasks: Sequence[Task]) -> list[float] | None:
    """Test accuracy on each task among all classes seen so far; None where the method needs the task."""
    if not learner.class_incremental:
        return None
    offsets = [sum(len(t.classes) for t in tasks[:i]) for i in range(len(tasks))]
    return [accuracy(learner, task.test, None, offset) for task, offset in zip(tasks, offsets, strict=True)]


def summarise(matrix: Matrix) -> dict[str, Any]:
    """What a matrix of accuracies (row: after task i; column: on task j) comes to.

    ``average`` is the mean of the last row. ``backward_transfer`` is the mean over past tasks of last minus own
    accuracy (Lopez-Paz and Ranzato 2017); ``forgetting`` of best minus last (Chaudhry et al. 2018). Both are None with
    fewer than two rows.
    """
    last = matrix[-1]
    past = range(len(matrix) - 1)
    transfer = [last[j] - matrix[j][j] for j in past]
    drops = [max(matrix[i][j] for i in range(j, len(matrix) - 1)) - last[j] for j in past]
    return {
        "matrix": matrix,
        "average": sum(last) / len(last),
        "backward_transfer": sum(transfer) / len(transfer) if transfer else None,
        "forgetting": sum(drops) / len(drops) if drops else None,
    }
