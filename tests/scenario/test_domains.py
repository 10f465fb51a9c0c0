"""Domains: the same classes under another order or angle of pixels, image by image."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.support import tiny

from lockgate.config import ScenarioConfig
from lockgate.data.arrays import Arrays, Dataset
from lockgate.errors import ConfigError
from lockgate.evaluation.accuracy import accuracy, domain_incremental, without_task
from lockgate.methods import METHODS
from lockgate.runs.loading import load
from lockgate.runs.run import resume, run
from lockgate.scenario import Scenario, join, split
from lockgate.scenario.domains import angle, pixel_sources
from lockgate.types import Examples, Task


def dataset(classes: int = 3, train: int = 8, test: int = 2, side: tuple[int, int] = (5, 6)) -> Dataset:
    rng = np.random.default_rng(0)

    def arrays(each: int) -> Arrays:
        x = rng.integers(1, 256, (classes * each, 2, *side)).astype(np.uint8)
        return Arrays(x, np.tile(np.arange(classes), each).astype(np.int64))

    return Dataset("toy", tuple(f"name{c}" for c in range(classes)), arrays(train), arrays(test))


def made(kind: str, tasks: int = 3, seed: int = 0, **over: object) -> Scenario:
    return split(dataset(), tasks, ScenarioConfig(kind=kind, **over), seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["permuted", "rotated"])
def test_every_task_has_all_classes_and_the_same_images(kind: str) -> None:
    scenario = made(kind, tasks=4, class_order=1993)  # four does not divide three
    order = np.random.RandomState(1993).permutation(3).tolist()
    assert scenario.shares_classes
    for task in scenario.tasks:
        assert task.classes == tuple(order)
        assert scenario.names(task) == tuple(f"name{c}" for c in order)
        for part in ("train", "val", "test"):
            mine: Examples = getattr(task, part)
            first: Examples = getattr(scenario.tasks[0], part)
            assert mine.y.equal(first.y)
            assert mine.task.tolist() == [task.id] * len(mine)
            assert mine.x.dtype == torch.uint8
            assert mine.x.shape == first.x.shape
    assert len(scenario.tasks[0].train) + len(scenario.tasks[0].val) == 24


@pytest.mark.parametrize("kind", ["permuted", "rotated"])
def test_the_first_task_sees_images_as_they_are(kind: str) -> None:
    data, task = dataset(), made(kind).tasks[0]
    assert task.test.x.numpy().tolist() == data.test.x.tolist()
    assert [task.classes[y] for y in task.test.y.tolist()] == data.test.y.tolist()
    seen = {x.tobytes(): y for x, y in zip(data.train.x, data.train.y.tolist(), strict=True)}
    for part in (task.train, task.val):
        assert [seen.pop(x.numpy().tobytes()) for x in part.x] == [task.classes[y] for y in part.y.tolist()]
    assert not seen


def test_permuted_pixels_are_the_same_pixels_in_one_order_for_all_images_and_channels() -> None:
    scenario = made("permuted")
    plain = scenario.tasks[0].train.x.flatten(2)
    orders = []
    for task in scenario.tasks[1:]:
        order = pixel_sources("permuted", task.id, 3, 5, 6, seed=0)
        assert order is not None
        assert sorted(order.tolist()) == list(range(30))
        assert task.train.x.flatten(2).tolist() == [[[c[i] for i in order] for c in x] for x in plain.tolist()]
        orders.append(order.tolist())
    assert orders[0] != orders[1]


@pytest.mark.parametrize(("tasks", "task"), [(3, 1), (3, 2), (2, 1), (5, 3)])
def test_rotated_images_are_those_that_pillow_turns(tasks: int, task: int) -> None:
    scenario = made("rotated", tasks=tasks)
    assert angle(task, tasks) == task * 180 / tasks
    for plain, turned in zip(scenario.tasks[0].test.x, scenario.tasks[task].test.x, strict=True):
        for before, after in zip(plain.numpy(), turned.numpy(), strict=True):
            assert after.tolist() == np.asarray(Image.fromarray(before).rotate(180 * task / tasks)).tolist()


def test_a_pixel_of_a_turned_image_is_its_nearest_neighbour_by_hand() -> None:
    """Counter-clockwise about the centre, row by row; where nothing is, black."""
    side, degrees = 7, 36.0
    sources = pixel_sources("rotated", 1, 5, side, side, seed=0)
    assert sources is not None
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    for row in range(side):
        for column in range(side):
            dx, dy = column + 0.5 - side / 2, row + 0.5 - side / 2  # y points down
            x, y = side / 2 + c * dx - s * dy, side / 2 + s * dx + c * dy
            assert min(abs(x - round(x)), abs(y - round(y))) > 1e-3, "the nearest pixel is not in doubt"
            inside = 0 <= x < side and 0 <= y < side
            assert int(sources[row * side + column]) == (int(y) * side + int(x) if inside else -1)


def test_what_is_held_out_is_so_in_every_task() -> None:
    scenario = made("permuted", per_class=4, held_out=0.5)
    undone = []
    for task in scenario.tasks:
        order = pixel_sources("permuted", task.id, 3, 5, 6, seed=0)
        back = torch.arange(30) if order is None else order.argsort()
        undone.append(task.val.x.flatten(2)[:, :, back])
        assert (len(task.train), len(task.val)) == (6, 6)
    assert undone[0].equal(undone[1])
    assert undone[0].equal(undone[2])


def test_domains_belong_to_the_order_seed_and_held_out_images_to_the_seed() -> None:
    first, other_seed, other_order = made("permuted"), made("permuted", seed=1), made("permuted", order_seed=1)
    assert first.digest == made("permuted").digest
    assert len({first.digest, other_seed.digest, other_order.digest, made("rotated").digest}) == 4
    assert first.tasks[1].test.x.equal(other_seed.tasks[1].test.x)
    assert not first.tasks[1].test.x.equal(other_order.tasks[1].test.x)


def test_images_are_in_memory_once() -> None:
    data = dataset()
    scenario = split(data, 10, ScenarioConfig(kind="permuted"), 0)
    pointers = {task.train.shared.data_ptr() for task in scenario.tasks}  # type: ignore[attr-defined]
    pointers |= {task.val.shared.data_ptr() for task in scenario.tasks}  # type: ignore[attr-defined]
    assert pointers == {data.train.x.ctypes.data}


def test_a_batch_is_what_the_whole_has_there_and_survives_pickling() -> None:
    train = made("rotated").tasks[1].train
    for index in (slice(3, 9), torch.tensor([5, 0, 5])):
        batch, again = train.batch(index), pickle.loads(pickle.dumps(train)).batch(index)
        assert batch.x.equal(train.x[index])
        assert batch.x.equal(again.x)
        assert batch.y.equal(train.y[index])
        assert batch.task.equal(again.task)
    united = join(made("rotated").tasks)
    assert united.heads == (3, 3, 3)
    assert len(united.train) == 3 * len(train)


class Fixed(torch.nn.Module):
    """Answers from a table: the first pixel of an image is its row."""

    class_incremental = True
    image_shape = (1, 1, 1)

    def __init__(self, answers: list[int]) -> None:
        super().__init__()
        self.input = torch.nn.Module()
        self.input.mean = torch.zeros(1)
        self.answers_given = answers

    def predict(self, x: torch.Tensor, task: int | None) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.tensor([self.answers_given[int(i[0, 0, 0])] for i in x]), 4).float()


def test_a_class_found_in_the_wrong_task_counts_for_the_domain_and_not_for_the_pair() -> None:
    """Two tasks of classes (5, 9), four images each: outputs 0..3 are (0, 5), (0, 9), (1, 5), (1, 9)."""

    def task(number: int, first: int) -> Task:
        x = torch.arange(first, first + 4, dtype=torch.uint8).reshape(4, 1, 1, 1)
        examples = Examples(x, torch.tensor([0, 0, 1, 1]), torch.full((4,), number))
        return Task(number, (5, 9), examples, examples, examples)

    learner = Fixed([0, 2, 2, 3, 2, 0, 3, 1])
    tasks = [task(0, 0), task(1, 4)]
    found = without_task(learner, tasks)  # type: ignore[arg-type]
    assert found is not None
    assert found.rows == {"logits": [1 / 4, 2 / 4]}
    assert found.task_found == [1 / 4, 2 / 4]
    assert domain_incremental(learner, tasks) == [3 / 4, 4 / 4]  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_domains(method: str, tmp_path: Path) -> None:
    experiment = tiny.experiment(method, scenario={"kind": "permuted"}, epochs=1, data={"synthetic_classes": 2})
    summary = run(experiment, tmp_path / "run")
    assert summary["scenario"]["kind"] == "permuted"
    assert summary["task_names"][0] == summary["task_names"][1]
    domains, pairs = summary["domain_incremental"], summary["class_incremental"]
    assert (domains is None) == (pairs is None) == (not METHODS[method].class_incremental)
    if domains is not None:
        for given, pair in zip(domains["matrix"], pairs["matrix"], strict=True):
            assert all(a >= b for a, b in zip(given, pair, strict=True))


def test_where_tasks_have_classes_of_their_own_there_are_no_domains(tmp_path: Path) -> None:
    summary = run(tiny.experiment("icarl", scenario={"class_order": 1993}), tmp_path / "run")
    assert summary["domain_incremental"] is None
    assert summary["scenario"]["class_order"] == 1993
    order = np.random.RandomState(1993).permutation(4).tolist()
    assert summary["task_names"] == [[f"class {c}" for c in order[:2]], [f"class {c}" for c in order[2:]]]


def test_a_run_of_domains_resumes_to_the_same_bits(tmp_path: Path) -> None:
    experiment = tiny.experiment("ccgn-episodic", scenario={"kind": "rotated"}, runtime={"checkpoint_seconds": 0})
    whole = run(experiment, tmp_path / "whole")
    run(experiment, tmp_path / "cut")
    (tmp_path / "cut" / "summary.json").unlink()
    again = resume(tmp_path / "cut", previous=True)
    for key in ("task_incremental", "class_incremental", "domain_incremental", "audit"):
        assert json.dumps(again[key]) == json.dumps(whole[key])


def test_evaluated_on_held_out_images_the_test_images_are_never_looked_at() -> None:
    data = dataset()
    unread = Dataset("toy", data.classes, data.train, None)  # type: ignore[arg-type]
    for kind, tasks in (("classes", 3), ("rotated", 2)):
        config = ScenarioConfig(kind=kind, evaluate="held_out", held_out=0.4)  # type: ignore[arg-type]
        whole = ScenarioConfig(kind=kind, held_out=0.4)  # type: ignore[arg-type]
        for task, usual in zip(split(unread, tasks, config, 0).tasks, split(data, tasks, whole, 0).tasks, strict=True):
            assert torch.equal(task.train.x[:], usual.train.x[:])
            for label in torch.unique(usual.val.y):
                parts = [part.x[torch.nonzero(part.y == label).flatten()] for part in (task.val, task.test, usual.val)]
                val, test, both = ([image.numpy().tobytes() for image in part] for part in parts)
                assert sorted(val + test) == sorted(both), "held-out images, and all of them"
                assert len(test) == -(-len(both) // 2)


def test_two_images_of_each_class_must_be_held_out_where_some_are_to_judge_by() -> None:
    with pytest.raises(ConfigError, match=r"two images of each class .* Raise 'scenario\.held_out'"):
        split(dataset(), 3, ScenarioConfig(evaluate="held_out", held_out=0.01), 0)


def test_accuracy_is_then_that_of_held_out_images(tmp_path: Path) -> None:
    experiment = tiny.experiment("finetune", scenario={"evaluate": "held_out", "held_out": 0.3})
    summary = run(experiment, tmp_path / "run")
    learner, scenario, _ = load(tmp_path / "run")
    assert summary["task_incremental"]["matrix"][-1] == [accuracy(learner, t.test, t.id) for t in scenario.tasks]
    assert summary["scenario"]["evaluate"] == "held_out"
