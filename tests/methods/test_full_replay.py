"""Full replay: the union of all tasks, one softmax over all classes."""

from __future__ import annotations

import math

import pytest
import torch
from tests.support.tiny import experiment

from lockgate.methods.protocols import memory_use
from lockgate.runs.build import build_learner
from lockgate.types import Batch


def as_set(x: torch.Tensor, y: torch.Tensor, task: torch.Tensor) -> list[tuple[bytes, int, int]]:
    """Images with their labels, in no order."""
    return sorted(zip((image.numpy().tobytes() for image in x), y.tolist(), task.tolist(), strict=True))


def test_each_task_trains_on_everything_seen_so_far_nothing_twice(world):
    learner, scenario = world("full-replay")
    for t, task in enumerate(scenario.tasks):
        data = learner.begin_task(task)
        seen = [
            entry for past in scenario.tasks[: t + 1] for entry in as_set(past.train.x, past.train.y, past.train.task)
        ]
        assert as_set(data.x, data.y, data.task) == sorted(seen)
        learner.end_task(task)
        images = sum(len(past.train) for past in scenario.tasks[: t + 1])
        assert memory_use(learner) == {"images": images, "bytes": images * task.train.x[0].numel()}


def test_the_sizes_announced_are_those_trained_on(world):
    learner, scenario = world("full-replay")
    announced = learner.stage_steps([len(task.train) for task in scenario.tasks], lambda images: images)
    for task, size in zip(scenario.tasks, announced, strict=True):
        assert len(learner.begin_task(task)) == size
        learner.end_task(task)


def test_what_is_kept_survives_a_checkpoint(world):
    learner, scenario = world("full-replay")
    first, second, _ = scenario.tasks
    learner.begin_task(first)
    learner.end_task(first)
    fresh = world("full-replay")[0]
    fresh.rebuild(learner.structure())
    fresh.load_state_dict(learner.state_dict())
    expected, got = learner.begin_task(second), fresh.begin_task(second)
    for part in ("x", "y", "task"):
        assert torch.equal(getattr(expected, part), getattr(got, part))


def test_the_loss_is_one_softmax_over_all_classes_seen(world):
    learner, scenario = world("full-replay")
    for task in scenario.tasks[:2]:
        data = learner.begin_task(task)
        learner.end_task(task)
    batch = data.batch(torch.arange(0, len(data), 5))
    assert set(batch.task.tolist()) == {0, 1}
    losses = learner.loss(batch)
    assert list(losses) == ["class"]
    truth = 0.0
    for x, y, task in zip(*batch, strict=True):
        scores = [value for t in range(2) for value in learner.predict(x[None], t)[0].tolist()]
        label = 2 * int(task) + int(y)
        truth += (math.log(sum(math.exp(s) for s in scores)) - scores[label]) / len(batch.y)
    assert losses["class"].item() == pytest.approx(truth, rel=1e-4)


def test_answers_without_a_task_are_those_of_the_tasks_side_by_side(world):
    learner, scenario = world("full-replay")
    for task in scenario.tasks:
        learner.begin_task(task)
    x = scenario.tasks[0].test.x
    learner.eval()
    everything = learner.predict(x, None)
    assert everything.shape == (len(x), 6)
    torch.testing.assert_close(everything, torch.cat([learner.predict(x, t) for t in range(3)], 1))


def test_every_head_keeps_learning_also_after_a_checkpoint(world, train):
    learner, scenario = world("full-replay")
    learner.begin_task(scenario.tasks[0])
    fresh = world("full-replay")[0]
    fresh.rebuild(learner.structure())
    for one in (learner, fresh):
        one.begin_task(scenario.tasks[1])
        before = [head.weight.detach().clone() for head in one.heads]
        train(one, scenario.tasks[1])
        assert not any(torch.equal(head.weight, b) for head, b in zip(one.heads, before, strict=True))


def test_tasks_of_different_sizes_have_their_own_place():
    learner = build_learner(experiment("full-replay", "mlp"), (1, 4, 4))
    for classes in (2, 3, 1):
        learner.add_task(classes)
    x = torch.zeros(6, 1, 4, 4, dtype=torch.uint8)
    batch = Batch(x, torch.tensor([0, 1, 0, 1, 2, 0]), torch.tensor([0, 0, 1, 1, 1, 2]))
    assert learner.labels(batch).tolist() == [0, 1, 2, 3, 4, 5]
    assert learner.predict(x, None).shape == (6, 6)
