"""Own arrays and Datasets as tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from lockgate import split_tasks
from lockgate.errors import ConfigError, DataError

RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (60, 6, 5, 3), np.uint8)  # (N, H, W, C)
Y = np.repeat(np.arange(6), 10) + 3
TEST = X[::5], Y[::5]


def test_every_image_lands_once_with_its_label_in_the_task_of_its_class() -> None:
    scenario = split_tasks(X, Y, 3, test=TEST, held_out=0.2)
    assert scenario.image_shape == (3, 6, 5)
    assert scenario.class_names == ("3", "4", "5", "6", "7", "8")
    assert [scenario.names(task) for task in scenario.tasks] == [("3", "4"), ("5", "6"), ("7", "8")]
    by_pixels = {image.tobytes(): label for image, label in zip(X, Y, strict=True)}
    for part, whole in (("train", None), ("val", None), ("test", TEST[0])):
        for task in scenario.tasks:
            examples = getattr(task, part)
            for image, local in zip(examples.x, examples.y.tolist(), strict=True):
                label = by_pixels[image.permute(1, 2, 0).contiguous().numpy().tobytes()]
                assert str(label) == scenario.names(task)[local]
        if whole is not None:
            assert sum(len(task.test) for task in scenario.tasks) == len(whole)
    assert sum(len(task.train) + len(task.val) for task in scenario.tasks) == len(X)
    assert all(len(task.val) == 4 for task in scenario.tasks)


def same(one: Any, other: Any) -> bool:
    return bool(one.digest == other.digest)


def test_arrays_tensors_layouts_and_datasets_are_the_same_data() -> None:
    wanted = split_tasks(X, Y, 2)
    channels_first = X.transpose(0, 3, 1, 2)
    assert same(split_tasks(channels_first, Y, 2), wanted)
    assert same(split_tasks(torch.from_numpy(channels_first.copy()), torch.from_numpy(Y), 2), wanted)
    assert same(split_tasks(X / 255, Y.tolist(), 2), wanted)
    pairs = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    assert same(split_tasks(pairs, tasks=2), wanted)

    class Flow(IterableDataset[Any]):
        def __iter__(self) -> Any:
            return iter(zip(X, Y, strict=True))

    assert same(split_tasks(Flow(), tasks=2), wanted)
    given = TensorDataset(torch.from_numpy(TEST[0]), torch.from_numpy(TEST[1]))
    assert same(split_tasks(X, Y, 2, test=given), split_tasks(X, Y, 2, test=TEST))


def test_grey_images_need_no_channel() -> None:
    assert split_tasks(X[..., 0], Y, 2).image_shape == (1, 6, 5)


def test_a_share_is_set_aside_per_class_by_the_seed() -> None:
    scenario = split_tasks(X, Y, 3, test=0.3, seed=1)
    assert [torch.bincount(task.test.y).tolist() for task in scenario.tasks] == [[3, 3]] * 3
    assert same(scenario, split_tasks(X, Y, 3, test=0.3, seed=1))
    assert not same(scenario, split_tasks(X, Y, 3, test=0.3, seed=2))


def test_classes_have_names_and_an_order() -> None:
    names = ["ant", "bee", "cat", "dog", "elk", "fox"]
    scenario = split_tasks(X, Y, 3, classes=names)
    assert scenario.names(scenario.tasks[0]) == ("ant", "bee")
    assert same(split_tasks(X, np.array(names)[Y - 3], 3), scenario)
    shuffled = split_tasks(X, Y, 3, classes=names, order="random", order_seed=1)
    assert sorted(name for task in shuffled.tasks for name in shuffled.names(task)) == names
    assert shuffled.names(shuffled.tasks[0]) != ("ant", "bee")
    assert all(len(task.train) + len(task.val) == 8 for task in split_tasks(X, Y, 3, per_class=4).tasks)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"tasks": 4}, "'tasks' must divide own data's 6 classes. Got 4 instead; use one of 1, 2, 3, 6"),
        ({"y": None}, "without labels.*Give a label for each"),
        ({"y": Y[:-1]}, "wanted one for each of the 60 images"),
        ({"x": X[0]}, "looks like one image"),
        ({"x": X.astype(float)}, r"wanted floats in \[0, 1\]"),
        ({"test": (X[:3], np.array([3, 4, 99]))}, "labels that no training image has: 99"),
        ({"test": (X[:, :4, :4], Y)}, r"Test images are \(3, 4, 4\), training images \(3, 6, 5\)"),
        ({"test": 1.5}, "Got 1.5 as share.*between 0 and 1"),
        ({"test": X}, "Got ndarray as `test`; wanted a pair"),
        ({"test": (X[:10], Y[:10])}, "no test image of class '4'"),
        ({"classes": ["a", "b"]}, "Got 2 names of classes .* for 6 labels"),
        ({"held_out": 0.95}, "less than 0.9"),
        ({"order": "sorted"}, "one of 'consecutive', 'random'"),
        ({"x": TensorDataset(torch.zeros(3)), "y": None}, "wanted pairs of an image and its label"),
        ({"x": TensorDataset(torch.zeros(3), torch.zeros(3))}, "holds its own labels"),
    ],
)
def test_what_cannot_be_used_is_said(words: dict[str, Any], problem: str) -> None:
    with pytest.raises((DataError, ConfigError), match=problem):
        split_tasks(**{"x": X, "y": Y, "tasks": 3, **words})


def test_images_of_several_sizes_are_refused() -> None:
    class Ragged(Dataset[Any]):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Any:
            return np.zeros((4 + index, 4, 3), np.uint8), index

    with pytest.raises(DataError, match="differ in shape"):
        split_tasks(Ragged(), tasks=1)
