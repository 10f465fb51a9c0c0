"""ER-ACE: which classes compete for which images."""

from __future__ import annotations

import pytest
import torch
from tests.methods.test_er import with_one_task


def test_new_images_compete_in_their_task_and_kept_ones_among_all_worked_image_by_image(world, train):
    learner, _, second = with_one_task(world, train, "er-ace")
    batch = second.train.batch(slice(0, 6))
    kept = learner.memory.examples.batch(torch.arange(8))
    learner.remembered = lambda count: kept

    def outputs(x):
        features = learner.backbone(learner.input(x[None]), 0).features
        return [float(value) for head in learner.heads for value in head(features)[0]]  # four classes

    def surprise(logits, label):
        return -float(torch.tensor(logits).log_softmax(0)[label])

    new = [surprise(outputs(x)[2:], int(y)) for x, y in zip(batch.x, batch.y, strict=True)]
    old = [surprise(outputs(x), int(y) + 2 * int(t)) for x, y, t in zip(*kept, strict=True)]
    losses = learner(batch)
    assert float(losses["class"]) == pytest.approx(sum(new) / 6, rel=1e-5)
    assert float(losses["replay"]) == pytest.approx(sum(old) / 8, rel=1e-5)


def test_new_images_do_not_move_the_outputs_of_old_classes(world, train):
    learner, _, second = with_one_task(world, train, "er-ace")
    learner.zero_grad()
    learner(second.train.batch(slice(0, 6)))["class"].backward()
    assert not learner.heads[0].weight.grad.any()
    assert learner.heads[1].weight.grad.any()
    learner.zero_grad()
    learner(second.train.batch(slice(0, 6)))["replay"].backward()
    assert learner.heads[0].weight.grad.any()
    assert learner.heads[1].weight.grad.any()


def test_the_memory_has_the_tasks_share_from_its_beginning(world, train):
    learner, _, second = with_one_task(world, train, "er-ace")
    pairs = list(zip(learner.memory.task.tolist(), learner.memory.y.tolist(), strict=True))
    assert {pair: pairs.count(pair) for pair in pairs} == {(0, 0): 2, (0, 1): 2, (1, 0): 2, (1, 1): 2}
    before = learner.memory.x.clone()
    learner.end_task(second)
    assert torch.equal(learner.memory.x, before)


def test_held_out_images_are_judged_among_the_classes_of_their_task(world, train):
    learner, _, second = with_one_task(world, train, "er-ace")
    learner.eval()
    losses = learner(second.val.batch(slice(None)))
    assert losses.keys() == {"class"}
