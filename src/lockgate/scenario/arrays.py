"""``split_tasks``: own images and labels as a sequence of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from lockgate.config import ScenarioConfig, build
from lockgate.data.arrays import Arrays, Dataset
from lockgate.data.task_images import ArrayImages
from lockgate.errors import DataError
from lockgate.scenario.inputs import labelled
from lockgate.scenario.split import Scenario, hold_out, split
from lockgate.training.seeding import generator

Images = npt.NDArray[Any] | Tensor | Sequence[Any]
Labels = npt.NDArray[Any] | Tensor | Sequence[Any]
OWN = "own data"


def split_tasks(
    x: Images | TorchDataset[Any],
    y: Labels | None = None,
    tasks: int = 5,
    *,
    test: tuple[Images, Labels] | TorchDataset[Any] | float = 0.2,
    classes: Sequence[str] | None = None,
    order: Literal["consecutive", "random"] | int = "consecutive",
    order_seed: int = 0,
    per_class: int = 0,
    held_out: float = 0.1,
    kind: Literal["classes", "permuted", "rotated"] = "classes",
    seed: int = 0,
) -> Scenario:
    """Cut labelled images into ``tasks`` tasks of equally many classes, for ``run`` or a loop of one's own.

    With another ``kind``, every task has all classes, its pixels ``permuted`` or ``rotated`` in a way of its own.

    ``x`` is (N, H, W), (N, H, W, C) or (N, C, H, W), uint8 or floats in [0, 1], numpy or torch, with a label for each
    in ``y``; or a torch Dataset of pairs. ``test`` is the same kind of thing, or the share of every class to set aside
    by ``seed``. ``classes`` names the classes in the order of their sorted labels. ``held_out`` is the share of a
    task's training images that selects its weights; ``per_class`` bounds how many are used (0: all).
    """
    images = ArrayImages(*labelled(x, y))
    names = _names(images, classes)
    train = _arrays(images, images.classes)
    if isinstance(test, float):
        train, tested = _set_aside(train, test, seed)
    else:
        tested = _arrays(ArrayImages(*labelled(*_test_pair(test))), images.classes)
    if tested.x.shape[1:] != train.x.shape[1:]:
        raise DataError(
            f"Test images are {_shape(tested)}, training images {_shape(train)} (C, H, W); wanted one size. Resize."
        )
    keywords = {"class_order": order, "order_seed": order_seed, "per_class": per_class, "held_out": held_out}
    return split(Dataset(OWN, names, train, tested), tasks, build(ScenarioConfig, {**keywords, "kind": kind}), seed)


def _names(images: ArrayImages, classes: Sequence[str] | None) -> tuple[str, ...]:
    names = images.classes if classes is None else tuple(map(str, classes))
    if len(names) != len(images.classes) or len(set(names)) != len(names):
        raise DataError(
            f"Got {len(names)} names of classes ({', '.join(names)}) for {len(images.classes)} labels "
            f"({', '.join(images.classes)}); wanted a name of its own for each. Name them in the order of the labels."
        )
    return names


def _arrays(images: ArrayImages, known: tuple[str, ...]) -> Arrays:
    """Images as (N, C, H, W), labels as positions in ``known``."""
    strange = [name for name in images.classes if name not in known]
    if strange:
        raise DataError(
            f"Test images have labels that no training image has: {', '.join(strange)}. Leave them out or learn them."
        )
    position = np.array([known.index(name) for name in images.classes], np.int64)
    return Arrays(np.ascontiguousarray(images.x.transpose(0, 3, 1, 2)), position[images.y])


def _set_aside(whole: Arrays, share: float, seed: int) -> tuple[Arrays, Arrays]:
    if not 0 < share < 1:
        raise DataError(
            f"Got {share:g} as share of test images; wanted one between 0 and 1, or test images and labels."
        )
    mask = hold_out(torch.from_numpy(whole.y), share, generator(seed, "test")).numpy()
    return Arrays(whole.x[~mask], whole.y[~mask]), Arrays(whole.x[mask], whole.y[mask])


def _test_pair(test: Any) -> tuple[Any, Any]:
    if isinstance(test, TorchDataset):
        return test, None
    if not isinstance(test, (tuple, list)) or len(test) != 2:
        raise DataError(
            f"Got {type(test).__name__} as `test`; wanted a pair (x, y), a Dataset, or a share such as 0.2."
        )
    return test[0], test[1]


def _shape(arrays: Arrays) -> tuple[int, ...]:
    return tuple(arrays.x.shape[1:])
