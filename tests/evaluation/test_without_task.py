"""Accuracy with no task given, by every kind of inference, against loops over images."""

from __future__ import annotations

import copy
import dataclasses
import functools

import pytest
import torch

from lockgate.config import Experiment, ModelConfig
from lockgate.evaluation.accuracy import answers_of, class_incremental, without_task
from lockgate.evaluation.exactness import promise
from lockgate.evaluation.features import StreamFeatures
from lockgate.methods.ccgn.class_incremental import ClassIncremental
from lockgate.runs.build import build_learner, validated
from lockgate.training.phase import EVAL_BATCH
from lockgate.types import Batch, Examples, Task

CLASSES = (3, 2, 4)
"""Tasks of unequal size: an offset that counts them alike is wrong."""


def unequal_tasks():
    """Classes differ by brightness, and overlap."""
    rng = torch.Generator().manual_seed(0)

    def examples(task, per_class):
        y = torch.arange(CLASSES[task]).repeat_interleave(per_class)
        brightness = 20 + 25 * (y + sum(CLASSES[:task])) + 20 * torch.randn(len(y), generator=rng)
        x = brightness[:, None, None, None] + 20 * torch.randn(len(y), 1, 8, 8, generator=rng)
        return Examples(x.clamp(0, 255).to(torch.uint8), y, torch.full_like(y, task))

    classes = [tuple(range(sum(CLASSES[:t]), sum(CLASSES[: t + 1]))) for t in range(3)]
    return [Task(t, classes[t], examples(t, 8), examples(t, 2), examples(t, 5)) for t in range(3)]


def learner_of(method, seen=3, **options):
    """A learner that has been through so many of the tasks in a hurry: right now and then."""
    return stages(method, tuple(options.items()))[seen - 1]


@functools.cache
def stages(method, options):
    """The learner as it was after each task."""
    model = ModelConfig(width=8)
    experiment = validated(Experiment(method=method, dataset="synthetic", model=model, options=dict(options)))
    learner = build_learner(experiment, (1, 8, 8))
    torch.manual_seed(0)
    ended = []
    for task in unequal_tasks():
        learner.begin_task(task)
        learner.train()
        optimiser = torch.optim.AdamW(learner.parameter_groups(0.03))
        for _ in range(12):
            optimiser.zero_grad()
            sum(learner(Batch(task.train.x, task.train.y, task.train.task)).values()).backward()
            learner.after_backward()
            optimiser.step()
            learner.after_step()
        learner.end_task(task)
        ended.append(copy.deepcopy(learner))
    return ended


def by_loop(learner, tasks):
    """Rows by kind, and the share of images that the first kind puts into the right task."""
    learner.eval()
    rows, found = {}, []
    for task in tasks:
        right, in_task = {}, 0
        for x, y in zip(task.test.x, task.test.y.tolist(), strict=True):
            with torch.no_grad():
                answers = {kind: scores[0].tolist() for kind, scores in answers_of(learner, x[None]).items()}
            for place, (kind, scores) in enumerate(answers.items()):
                best = scores.index(max(scores))
                chosen, rest = 0, best  # task and class within it, by taking the tasks away one by one
                while rest >= CLASSES[chosen]:
                    chosen, rest = chosen + 1, rest - CLASSES[chosen]
                right[kind] = right.get(kind, 0) + (chosen == task.id and rest == y)
                in_task += place == 0 and chosen == task.id
        for kind, count in right.items():
            rows.setdefault(kind, []).append(count / len(task.test))
        found.append(in_task / len(task.test))
    return rows, found


@pytest.mark.parametrize(
    ("method", "options", "kinds"),
    [
        ("finetune", {}, ["logits"]),
        ("ccgn-episodic", {}, ["argmax", "joint"]),
        ("ccgn-episodic", {"inference": "joint", "targets": "class"}, ["argmax", "joint"]),
    ],
)
@pytest.mark.parametrize("seen", [1, 2, 3])
def test_every_kind_of_inference_has_the_accuracy_of_a_loop_over_images(method, options, kinds, seen):
    tasks = unequal_tasks()[:seen]
    learner = learner_of(method, seen, **options)
    found = without_task(learner, tasks)
    assert list(found.rows) == kinds
    assert (found.rows, found.task_found) == by_loop(learner, tasks)
    assert class_incremental(learner, tasks) == found.rows[options.get("inference", kinds[0])]
    if seen == 1:
        assert found.task_found == [1.0], "one task is always found"


def test_the_example_is_worth_counting():
    found = without_task(learner_of("ccgn-episodic"), unequal_tasks())
    assert any(0 < share < 1 for share in found.task_found), "tasks are found now and then"
    assert found.rows["argmax"] != found.rows["joint"]
    assert 0 < sum(found.rows["argmax"]) < sum(found.task_found), "the right task does not make the right class"


def test_every_image_counts_when_the_last_batch_is_short():
    first, task, last = unequal_tasks()
    learner = learner_of("ccgn-episodic", inference="joint", targets="class")
    count = EVAL_BATCH + 3
    index = torch.arange(count) % len(task.test)
    many = dataclasses.replace(task, test=Examples(*task.test.batch(index)))
    found = without_task(learner, [first, many, last])
    one_by_one = [
        by_loop(learner, [dataclasses.replace(task, test=Examples(*task.test.batch(slice(i, i + 1))))])
        for i in range(len(task.test))
    ]
    for kind, row in found.rows.items():
        assert row[1] == sum(one_by_one[i][0][kind][0] for i in index.tolist()) / count
    assert found.task_found[1] == sum(one_by_one[i][1][0] for i in index.tolist()) / count


@pytest.fixture
def passes(monkeypatch):
    """Every stream that was run over a batch of images."""
    made, streams = [], ClassIncremental.streams

    def counted(self, x, tasks=None):
        found = streams(self, x, tasks)
        made.extend(range(len(found)))
        return found

    monkeypatch.setattr(ClassIncremental, "streams", counted)
    return made


def test_what_is_known_of_streams_is_not_computed_again_and_gives_the_same(passes):
    features, tasks = StreamFeatures(), unequal_tasks()
    truth = [without_task(learner_of("ccgn-episodic", seen), tasks[:seen]) for seen in (1, 2, 3)]
    for seen, needed in ((1, 1), (2, 3), (3, 5)):  # the new stream on all images, old streams on new ones
        passes.clear()
        learner = learner_of("ccgn-episodic", seen)
        promise(learner, tasks[:seen], features)
        assert len(passes) == needed
        assert without_task(learner, tasks[:seen], features) == truth[seen - 1]
        assert len(passes) == needed
    features.forget()
    assert without_task(learner, tasks, features) == truth[-1]
    assert len(passes) == 5 + 9


def test_what_does_not_fit_is_computed_again(passes, monkeypatch):
    monkeypatch.setattr("lockgate.evaluation.features.LIMIT", 0)
    features, learner = StreamFeatures(), learner_of("ccgn-episodic")
    truth = without_task(learner, unequal_tasks())
    passes.clear()
    for _ in range(2):
        assert without_task(learner, unequal_tasks(), features) == truth
    assert len(passes) == 18


def test_a_method_that_needs_the_task_has_nothing_to_say():
    assert without_task(learner_of("ccgn"), unequal_tasks()) is None
    assert class_incremental(learner_of("ccgn"), unequal_tasks()) is None
