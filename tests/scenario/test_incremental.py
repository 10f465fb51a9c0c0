"""A new task beside past ones: three disjoint parts, probes that show every class, weights that even classes out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lockgate.data.arrays import Arrays
from lockgate.errors import DataError
from lockgate.scenario.incremental import class_weights, grow, in_turn
from lockgate.types import Examples


def numbered(sizes: list[int]) -> Arrays:
    """Image i has its number as its first pixel."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    x = np.zeros((len(y), 1, 2, 2), np.uint8)
    x[:, 0, 0, 0] = np.arange(len(y))
    return Arrays(x, y)


def numbers(examples: Examples) -> list[int]:
    return examples.x[:, 0, 0, 0].tolist()


PAST = [(("cat", "dog"), Examples(torch.ones(3, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 0]), torch.zeros(3)))]


@given(st.lists(st.integers(3, 40), min_size=1, max_size=4), st.integers(0, 9), st.integers(0, 99))
def test_every_image_is_in_one_part_and_every_class_in_each(sizes: list[int], probes: int, seed: int) -> None:
    names = tuple(f"class {i}" for i in range(len(sizes)))
    task = grow([], numbered(sizes), names, 0.1, probes, seed).tasks[-1]
    parts = [task.train, task.val, task.test]
    assert sorted(n for part in parts for n in numbers(part)) == list(range(sum(sizes)))
    assert all(set(part.y.tolist()) == set(range(len(sizes))) for part in parts)
    assert len(task.audit_images) == min(probes, len(task.test))
    assert set(numbers(task.audit_images)) <= set(numbers(task.test))


def test_past_tasks_come_back_as_what_was_kept_of_them() -> None:
    scenario = grow(PAST, numbered([5, 5, 5]), ("a", "b", "c"), 0.1, 4, 0)
    past, new = scenario.tasks
    assert (past.id, new.id) == (0, 1)
    assert (past.classes, new.classes) == ((0, 1), (2, 3, 4))
    assert scenario.names(past) == ("cat", "dog")
    assert scenario.names(new) == ("a", "b", "c")
    assert len(past.train) == len(past.val) == 0
    assert torch.equal(past.audit_images.x, PAST[0][1].x)
    assert set(new.train.task.tolist()) == {1}


def test_probes_take_the_classes_in_turn() -> None:
    y = torch.tensor([0] * 20 + [1] * 5 + [2])
    chosen = y[in_turn(y, 7, torch.Generator().manual_seed(0))]
    assert torch.bincount(chosen).tolist() == [3, 3, 1]
    assert sorted(in_turn(y, 99, torch.Generator()).tolist()) == list(range(26))


@pytest.mark.parametrize(("sizes", "weights"), [([10, 10], ()), ([10, 14], ()), ([10, 30], (2.0, 2 / 3))])
def test_classes_are_weighted_only_where_they_differ_much(sizes: list[int], weights: tuple[float, ...]) -> None:
    assert class_weights(sizes) == pytest.approx(weights)
    if weights:
        counted = [size * weight for size, weight in zip(sizes, weights, strict=True)]
        assert counted[0] == pytest.approx(counted[1])
    assert grow([], numbered(sizes), ("a", "b"), 0.1, 0, 0).tasks[0].weights == pytest.approx(weights)


def test_a_class_with_too_few_images_is_named_with_their_number() -> None:
    with pytest.raises(DataError, match=r"Too few images of b \(2\); wanted at least 3"):
        grow([], numbered([9, 2]), ("a", "b"), 0.1, 0, 0)
