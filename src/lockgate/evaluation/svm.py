"""What the stored images alone are worth: a support vector machine on their pixels, no network at all.

A class-incremental accuracy below this one is no result of the method that kept the images. Reads the memory, draws
from no generator of torch's: nothing that is learnt depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from lockgate.memory.episodic import EpisodicMemory
from lockgate.methods.base import Method
from lockgate.training.seeding import generator
from lockgate.types import Task

LARGEST_SIDE, MOST_STORED, MOST_TESTED = 32, 5_000, 2_000
"""Images up to this size, that many kept ones at most, tested on so many of all tasks: a matter of seconds."""
PENALTY = 10.0
"""C of the machine; gamma is scikit-learn's `scale`. Chosen once, for all data."""


def stored_images_svm(learner: Method, tasks: Sequence[Task], seed: int) -> float | None:
    """Test accuracy of an RBF SVM on the images that ``learner`` keeps, no task given: mean over ``tasks``, all seen.

    None where no real images are kept, where they are too large or too many, and where there is nothing to test on.
    """
    memory, tested = learner.memory, [task for task in tasks if len(task.test)]
    if not isinstance(memory, EpisodicMemory) or not 0 < memory.kept_images <= MOST_STORED or not tested:
        return None
    if max(memory.x.shape[2:]) > LARGEST_SIDE:
        return None
    starts = torch.tensor(list(accumulate((len(task.classes) for task in tasks), initial=0)))
    x, y, owner = memory.x.cpu(), memory.y.cpu(), memory.task.cpu()
    truth = torch.cat([task.test.y + starts[task.id] for task in tested])
    place = torch.cat([torch.full((len(task.test),), task.id) for task in tested])
    chosen = stratified(truth, MOST_TESTED, generator(seed, "svm"))
    images = torch.cat([task.test.x for task in tested])[chosen]
    answers = rbf_svm(x, y + starts[owner], images)
    right, place = answers == truth[chosen], place[chosen]
    accuracies = [float(right[place == task.id].double().mean()) for task in tested if bool((place == task.id).any())]
    return sum(accuracies) / len(accuracies)


def stratified(y: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """``count`` of the labels ``y`` (N,), or all if there are fewer, as indices: of each class its share, at random."""
    order = torch.randperm(len(y), generator=rng)
    order = order[torch.sort(y[order], stable=True).indices]  # class after class, each in a random order
    if len(y) <= count:
        return order
    return order[((torch.arange(count, dtype=torch.float64) + 0.5) * len(y) / count).long()]


def rbf_svm(x: Tensor, y: Tensor, asked: Tensor) -> Tensor:
    """Fit scikit-learn's RBF machine to images ``x`` (N, C, H, W) uint8 of classes ``y``; the classes of ``asked``.

    The kernel is computed here, as a product of matrices: scikit-learn's own loop is tens of times slower.
    """
    from sklearn.svm import SVC

    if len(torch.unique(y)) == 1:
        return y[:1].expand(len(asked))
    stored, others = (images.flatten(1).double() / 255 for images in (x, asked))  # (N, pixels), in [0, 1]
    variance = float(stored.var(correction=0))
    gamma = 1 / (stored.shape[1] * variance) if variance else 1.0  # what "scale" is
    machine = SVC(C=PENALTY, kernel="precomputed").fit(_rbf(stored, stored, gamma), y.numpy())
    return torch.from_numpy(np.asarray(machine.predict(_rbf(others, stored, gamma))))


def _rbf(a: Tensor, b: Tensor, gamma: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """exp(-gamma |a_i - b_j|^2), (N, M)."""
    square = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T
    kernel: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = torch.exp(-gamma * square.clamp_(min=0)).numpy()
    return kernel
