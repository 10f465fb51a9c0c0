"""A data set cut into tasks: nothing lost, nothing twice, every label traceable. Each image carries its own number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lockgate.config import ScenarioConfig
from lockgate.data.arrays import Arrays, Dataset
from lockgate.errors import ConfigError, DataError
from lockgate.scenario import join, split
from lockgate.types import Examples

TRAIN, TEST = 1, 2


def numbered(labels: list[int], mark: int) -> Arrays:
    """One (1, 2, 2) image per label: its number in two pixels, the split in the third."""
    x = np.zeros((len(labels), 1, 2, 2), np.uint8)
    number = np.arange(len(labels))
    x[:, 0, 0, 0], x[:, 0, 0, 1], x[:, 0, 1, 0] = number // 256, number % 256, mark
    return Arrays(x, np.array(labels, np.int64))


def numbers(x: Tensor, mark: int) -> list[int]:
    pixels = x.long()
    assert set(pixels[:, 0, 1, 0].tolist()) <= {mark}, "training and test images are mixed up"
    return (pixels[:, 0, 0, 0] * 256 + pixels[:, 0, 0, 1]).tolist()


def dataset_of(train: list[int], test: list[int], classes: int) -> Dataset:
    return Dataset("toy", tuple(f"name{c}" for c in range(classes)), numbered(train, TRAIN), numbered(test, TEST))


def even(classes: int, train: int, test: int = 2) -> Dataset:
    return dataset_of(list(range(classes)) * train, list(range(classes)) * test, classes)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Dataset, int, ScenarioConfig, int]:
    tasks, per_task = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    classes = tasks * per_task
    train = [c for c in range(classes) for _ in range(draw(st.integers(2, 12)))]
    test = [c for c in range(classes) for _ in range(draw(st.integers(1, 3)))]
    config = ScenarioConfig(
        class_order=draw(st.sampled_from(["consecutive", "random"])),
        order_seed=draw(st.integers(0, 99)),
        held_out=draw(st.floats(0.01, 0.89)),
    )
    data = dataset_of(draw(st.permutations(train)), draw(st.permutations(test)), classes)
    return data, tasks, config, draw(st.integers(0, 99))


def originals(examples: Examples, classes: tuple[int, ...]) -> list[int]:
    """The data set's own labels, by way of the task's local ones."""
    return [classes[y] for y in examples.y.tolist()]


@settings(deadline=None, max_examples=60)
@given(cases())
def test_tasks_share_no_class_and_together_have_them_all(case: Any) -> None:
    data, tasks, config, seed = case
    scenario = split(data, tasks, config, seed)
    classes = [c for task in scenario.tasks for c in task.classes]
    assert sorted(classes) == list(range(len(data.classes)))
    assert {len(task.classes) for task in scenario.tasks} == {len(data.classes) // tasks}
    assert [task.id for task in scenario.tasks] == list(range(tasks))


@settings(deadline=None, max_examples=60)
@given(cases())
def test_every_image_is_in_one_place_and_its_label_can_be_traced(case: Any) -> None:
    data, tasks, config, seed = case
    scenario = split(data, tasks, config, seed)
    learnt: list[int] = []
    tested: list[int] = []
    for task in scenario.tasks:
        for part, arrays, mark in (
            (task.train, data.train, TRAIN),
            (task.val, data.train, TRAIN),
            (task.test, data.test, TEST),
        ):
            here = numbers(part.x, mark)
            assert originals(part, task.classes) == [int(arrays.y[i]) for i in here]
            assert part.task.tolist() == [task.id] * len(part)
            (tested if part is task.test else learnt).extend(here)
        for part in (task.train, task.val, task.test):
            assert set(part.y.tolist()) == set(range(len(task.classes))), "each class is in each part"
    assert sorted(learnt) == list(range(len(data.train.y)))  # so training and held-out images are disjoint, too
    assert sorted(tested) == list(range(len(data.test.y)))


@settings(deadline=None, max_examples=60)
@given(cases())
def test_the_share_held_out_of_each_class_is_the_one_asked_for(case: Any) -> None:
    data, tasks, config, seed = case
    for task in split(data, tasks, config, seed).tasks:
        for label in range(len(task.classes)):
            held, left = int((task.val.y == label).sum()), int((task.train.y == label).sum())
            wanted = config.held_out * (held + left)
            assert abs(held - wanted) <= 0.5 or (held == 1 and wanted < 1) or (left == 1 and wanted > held)


@settings(deadline=None, max_examples=30)
@given(cases())
def test_the_same_seed_gives_the_same_split(case: Any) -> None:
    data, tasks, config, seed = case
    first, again = split(data, tasks, config, seed), split(data, tasks, config, seed)
    for one, other in zip(first.tasks, again.tasks, strict=True):
        assert one.classes == other.classes
        for part in ("train", "val", "test"):
            assert getattr(one, part).x.equal(getattr(other, part).x)
            assert getattr(one, part).y.equal(getattr(other, part).y)


def test_another_seed_holds_out_other_images_of_the_same_classes() -> None:
    data = even(classes=4, train=40)
    splits = [split(data, 2, ScenarioConfig(), seed) for seed in range(4)]
    for t in range(2):
        assert len({tuple(numbers(s.tasks[t].val.x, TRAIN)) for s in splits}) == 4
        assert len({s.tasks[t].classes for s in splits}) == 1
        assert len({tuple(numbers(s.tasks[t].test.x, TEST)) for s in splits}) == 1


def test_consecutive_classes_keep_their_own_order() -> None:
    scenario = split(even(classes=6, train=3), 3, ScenarioConfig(order_seed=5), seed=1)
    assert [task.classes for task in scenario.tasks] == [(0, 1), (2, 3), (4, 5)]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**40), st.integers(0, 10))
def test_a_random_class_order_is_a_permutation_decided_by_its_own_seed_alone(order_seed: int, seed: int) -> None:
    config = ScenarioConfig(class_order="random", order_seed=order_seed)
    data = even(classes=6, train=2)
    order = [c for task in split(data, 2, config, seed).tasks for c in task.classes]
    assert sorted(order) == list(range(6))
    assert order == [c for task in split(data, 2, config, seed + 1).tasks for c in task.classes]


def test_other_order_seeds_give_other_orders() -> None:
    data = even(classes=10, train=2)
    orders = {
        tuple(c for task in split(data, 5, ScenarioConfig("random", order_seed), 0).tasks for c in task.classes)
        for order_seed in range(6)
    }
    assert len(orders) == 6


def test_names_follow_the_local_labels() -> None:
    scenario = split(even(classes=6, train=3), 2, ScenarioConfig("random", 1), seed=0)
    for task in scenario.tasks:
        assert scenario.names(task) == tuple(f"name{c}" for c in task.classes)
    assert scenario.image_shape == (1, 2, 2)


@pytest.mark.parametrize(
    ("classes", "tasks", "divisors"), [(10, 3, "1, 2, 5, 10"), (7, 2, "1, 7"), (12, 24, "1, 2, 3, 4, 6, 12")]
)
def test_classes_that_do_not_divide_into_tasks_are_refused_with_the_numbers_that_do(
    classes: int, tasks: int, divisors: str
) -> None:
    with pytest.raises(
        ConfigError, match=rf"{classes} classes\. Got {tasks} instead; use one of {divisors}\."
    ) as caught:
        split(even(classes, train=2), tasks, ScenarioConfig(), 0)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("train", "test", "which"), [([0, 0, 2, 2], [0, 1, 2], "training"), ([0, 1, 2] * 2, [0, 2], "test")]
)
def test_a_class_without_images_is_named(train: list[int], test: list[int], which: str) -> None:
    with pytest.raises(DataError, match=f"no {which} image of class 'name1'"):
        split(dataset_of(train, test, 3), 1, ScenarioConfig(), 0)


def test_several_classes_without_images_are_all_named() -> None:
    with pytest.raises(DataError, match="'name0', 'name3'"):
        split(dataset_of([1, 1, 2, 2], [0, 1, 2, 3], 4), 2, ScenarioConfig(), 0)


def test_a_class_with_one_image_cannot_be_held_out_from() -> None:
    with pytest.raises(DataError, match="1 training image; 2 are wanted"):
        split(dataset_of([0, 0, 1], [0, 1], 2), 1, ScenarioConfig(), 0)


@settings(deadline=None, max_examples=30)
@given(cases())
def test_the_joint_view_holds_every_image_once_each_still_of_its_own_task(case: Any) -> None:
    data, tasks, config, seed = case
    scenario = split(data, tasks, config, seed)
    whole = join(scenario.tasks)
    assert whole.classes == tuple(c for task in scenario.tasks for c in task.classes)
    assert whole.parts == scenario.tasks
    assert whole.heads == tuple(len(task.classes) for task in scenario.tasks)
    for part, arrays, mark in (("train", data.train, TRAIN), ("val", data.train, TRAIN), ("test", data.test, TEST)):
        united: Examples = getattr(whole, part)
        separate = [i for task in scenario.tasks for i in numbers(getattr(task, part).x, mark)]
        assert numbers(united.x, mark) == separate
        for number, y, t in zip(separate, united.y.tolist(), united.task.tolist(), strict=True):
            assert scenario.tasks[t].classes[y] == arrays.y[number]


def test_an_ordinary_task_has_one_head_of_its_classes() -> None:
    task = split(even(classes=6, train=3), 2, ScenarioConfig(), 0).tasks[1]
    assert task.heads == (3,)


@pytest.mark.parametrize("seed", [0, 1])
def test_so_many_images_of_each_class_as_wanted(seed: int) -> None:
    data = even(classes=4, train=20)
    made = split(data, 2, ScenarioConfig(per_class=6, held_out=0.5), seed)
    for task in made.tasks:
        used = numbers(task.train.x, TRAIN) + numbers(task.val.x, TRAIN)
        assert sorted(data.train.y[used].tolist()) == sorted([*task.classes] * 6)
        assert len(set(used)) == len(used)
        assert len(task.test) == 2 * len(task.classes), "test images are never left out"


def test_the_choice_of_images_is_made_by_the_seed() -> None:
    data, config = even(classes=2, train=50), ScenarioConfig(per_class=5)
    chosen = [
        sorted(n for part in (task.train, task.val) for n in numbers(part.x, TRAIN))
        for seed in (0, 0, 1)
        for task in split(data, 1, config, seed).tasks
    ]
    assert chosen[0] == chosen[1] != chosen[2]


def test_more_than_there_are_is_all() -> None:
    (task,) = split(even(classes=2, train=5), 1, ScenarioConfig(per_class=6), seed=0).tasks
    assert len(task.train) + len(task.val) == 10
