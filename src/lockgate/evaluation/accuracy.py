"""Accuracy on every task seen, with and without the task given; averages, backward transfer and forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lockgate.evaluation.features import StreamFeatures
from lockgate.methods.base import Method
from lockgate.methods.protocols import ParallelStreams, SeveralAnswers
from lockgate.training.phase import eval_batch
from lockgate.types import Examples, Task

Matrix = list[list[float]]


@torch.no_grad()
def predictions(learner: Method, examples: Examples, task: int) -> Tensor:
    """The class of ``task`` that ``learner`` sees in each of ``examples``, (N,)."""
    learner.eval()
    device = learner.input.mean.device
    size = eval_batch(learner.image_shape)
    parts = (examples.batch(slice(start, start + size)).x for start in range(0, len(examples), size))
    return torch.cat([learner.predict(x.to(device), task).argmax(1).cpu() for x in parts])


def accuracy(learner: Method, examples: Examples, task: int) -> float:
    """Share of ``examples`` classified right, the task given."""
    return int((predictions(learner, examples, task) == examples.y).sum()) / len(examples)


def inference_of(learner: Method) -> str:
    """Which of its answers ``learner.predict`` gives without a task."""
    return learner.inference if isinstance(learner, SeveralAnswers) else "logits"


def answers_of(learner: Method, x: Tensor) -> dict[str, Tensor]:
    """Scores (B, classes seen) without a task, by every kind of inference the method knows."""
    return learner.answers(x) if isinstance(learner, SeveralAnswers) else {"logits": learner.predict(x, None)}


def task_incremental(learner: Method, tasks: Sequence[Task], known: Sequence[float] = ()) -> list[float]:
    """Test accuracy on each task that has test images, the task given; of the first ones it may be ``known``."""
    return [*known, *(accuracy(learner, task.test, task.id) for task in tasks[len(known) :] if len(task.test))]


@dataclass(frozen=True)
class WithoutTask:
    """Test accuracy on each task seen that has test images, among all classes seen so far."""

    rows: dict[str, list[float]]
    """By kind of inference."""
    task_found: list[float]
    """Share of each task's images that the first kind of inference puts into the right task."""
    class_found: dict[str, list[float]]
    """By kind of inference, share of each task's images whose class is right, whatever task it was found in."""


@torch.no_grad()
def without_task(learner: Method, tasks: Sequence[Task], features: StreamFeatures | None = None) -> WithoutTask | None:
    """Accuracy with no task given, by every kind of inference; None where the method needs the task.

    ``features`` holds what is known of streams already.
    """
    if not learner.class_incremental:
        return None
    learner.eval()
    device = learner.input.mean.device
    task_of_class = torch.cat([torch.full((len(task.classes),), task.id) for task in tasks])
    class_of = torch.tensor([c for task in tasks for c in task.classes])  # the data set's class of each answer
    found: list[float] = []
    rows: dict[str, list[float]] = {}
    class_found: dict[str, list[float]] = {}
    offset, size = 0, eval_batch(learner.image_shape)
    for task in tasks:
        right: dict[str, int] = {}
        in_class: dict[str, int] = {}
        in_task = 0
        known = (
            features.of(learner, range(len(learner.heads)), task) if features and task.audit_images is task.test else []
        )
        for start in range(0, len(task.test), size):
            part = slice(start, start + size)
            x, y, _ = task.test.batch(part)
            if known and isinstance(learner, ParallelStreams):
                answers = learner.answers_from([stream[part].to(device) for stream in known], x.to(device))
            else:
                answers = answers_of(learner, x.to(device))
            for index, (kind, scores) in enumerate(answers.items()):
                answer = scores.argmax(1).cpu()
                right[kind] = right.get(kind, 0) + int((answer == y + offset).sum())
                in_class[kind] = in_class.get(kind, 0) + int((class_of[answer] == class_of[y + offset]).sum())
                in_task += 0 if index else int((task_of_class[answer] == task.id).sum())
        offset += len(task.classes)
        if not len(task.test):
            continue
        for kind, count in right.items():
            rows.setdefault(kind, []).append(count / len(task.test))
            class_found.setdefault(kind, []).append(in_class[kind] / len(task.test))
        found.append(in_task / len(task.test))
    return WithoutTask(rows, found, class_found)


def class_incremental(learner: Method, tasks: Sequence[Task]) -> list[float] | None:
    """Test accuracy on each task among all classes seen so far; None where the method needs the task."""
    found = without_task(learner, tasks)
    return None if found is None else found.rows[inference_of(learner)]


def domain_incremental(learner: Method, tasks: Sequence[Task]) -> list[float] | None:
    """Test accuracy on each of some tasks that share their classes: the class right, whatever task it was found in.

    The answer is the best of all (task, class) pairs, of which the class counts.
    """
    found = without_task(learner, tasks)
    return None if found is None else found.class_found[inference_of(learner)]


def summarise(matrix: Matrix) -> dict[str, Any]:
    """What a matrix of accuracies (row: after task i; column: on task j) comes to.

    ``average`` is the mean of the last row; ``average_incremental`` the mean over rows of their means, the average
    accuracy after each stage (Rebuffi et al. 2017). ``backward_transfer`` is the mean over past tasks of last minus own
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
        "average_incremental": sum(sum(row) / len(row) for row in matrix) / len(matrix),
        "backward_transfer": sum(transfer) / len(transfer) if transfer else None,
        "forgetting": sum(drops) / len(drops) if drops else None,
    }
