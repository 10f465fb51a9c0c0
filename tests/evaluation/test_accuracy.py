"""Accuracies against loops over images; summaries against examples worked out by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.evaluation.accuracy import accuracy, class_incremental, summarise, task_incremental
from lockgate.training.phase import EVAL_BATCH
from lockgate.types import Examples


def right_by_loop(learner, examples, task, offset=0):
    right = 0
    for i in range(len(examples)):
        logits = learner.predict(examples.x[i : i + 1], task)[0].tolist()
        right += logits.index(max(logits)) == int(examples.y[i]) + offset
    return right / len(examples)


def test_a_hand_computed_matrix_of_three_tasks():
    summary = summarise([[0.9], [0.7, 0.8], [0.95, 0.5, 0.6]])
    assert summary["average"] == pytest.approx((0.95 + 0.5 + 0.6) / 3)
    assert summary["backward_transfer"] == pytest.approx(((0.95 - 0.9) + (0.5 - 0.8)) / 2)  # -0.125
    assert summary["forgetting"] == pytest.approx(((0.9 - 0.95) + (0.8 - 0.5)) / 2)  # the best before the last: 0.125
    assert summary["average_incremental"] == pytest.approx((0.9 + (0.7 + 0.8) / 2 + (0.95 + 0.5 + 0.6) / 3) / 3)
    assert summary["matrix"] == [[0.9], [0.7, 0.8], [0.95, 0.5, 0.6]]


def test_forgetting_is_measured_from_the_best_and_transfer_from_the_own_accuracy():
    summary = summarise([[0.5], [0.9, 0.8], [0.6, 0.8, 1.0]])
    assert summary["backward_transfer"] == pytest.approx(((0.6 - 0.5) + (0.8 - 0.8)) / 2)
    assert summary["forgetting"] == pytest.approx(((0.9 - 0.6) + (0.8 - 0.8)) / 2)


def test_one_task_has_nothing_to_forget():
    assert summarise([[0.75]]) == {
        "matrix": [[0.75]],
        "average": 0.75,
        "average_incremental": 0.75,
        "backward_transfer": None,
        "forgetting": None,
    }


def test_the_single_row_of_a_joint_run_is_averaged():
    assert summarise([[0.5, 1.0]])["average"] == 0.75


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_a_method_that_keeps_every_answer_neither_forgets_nor_transfers(own):
    summary = summarise([own[: i + 1] for i in range(len(own))])
    assert summary["forgetting"] == summary["backward_transfer"] == 0
    assert summary["average"] == pytest.approx(sum(own) / len(own))


@settings(deadline=None, max_examples=30)
@given(
    st.integers(2, 5).flatmap(
        lambda n: st.tuples(*(st.lists(st.floats(0, 1), min_size=i, max_size=i) for i in range(1, n + 1)))
    )
)
def test_forgetting_is_at_least_what_backward_transfer_loses(rows):
    summary = summarise(list(rows))
    assert summary["forgetting"] >= -summary["backward_transfer"] - 1e-12


@pytest.mark.parametrize("method", ["ccgn", "finetune"])
def test_accuracy_with_the_task_given_counts_images_one_by_one(learnt, method):
    learner, scenario = learnt(method)
    truth = [right_by_loop(learner, task.test, task.id) for task in scenario.tasks]
    assert task_incremental(learner, scenario.tasks) == truth


def test_accuracy_without_the_task_is_among_all_classes(learnt):
    learner, scenario = learnt("finetune", tasks=3)
    truth = [right_by_loop(learner, task.test, None, 2 * task.id) for task in scenario.tasks]
    assert class_incremental(learner, scenario.tasks) == truth
    assert sum(truth) > 0


def test_a_method_that_needs_the_task_has_no_accuracy_without_it(learnt):
    assert class_incremental(*_learner_and_tasks(learnt())) is None


def _learner_and_tasks(pair):
    return pair[0], pair[1].tasks


def test_every_image_counts_when_the_last_batch_is_short(learnt):
    learner, scenario = learnt("finetune")
    one = scenario.tasks[0].test
    index = torch.arange(EVAL_BATCH + 3) % len(one)
    many = Examples(one.x[index], one.y[index], one.task[index])
    per_image = [
        right_by_loop(learner, Examples(one.x[i : i + 1], one.y[i : i + 1], one.task[i : i + 1]), 0)
        for i in range(len(one))
    ]
    assert accuracy(learner, many, 0) == sum(per_image[i] for i in index.tolist()) / len(index)
