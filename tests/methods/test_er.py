"""Experience replay: what is in the loss, and how it is weighted."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from lockgate.config import AugmentConfig
from lockgate.types import Batch


def with_one_task(world, train, method="er", backbone="simple_cnn", **options):
    """A learner inside its second task."""
    learner, scenario = world(method, backbone, **{"buffer": 8, **options})
    first, second, _ = scenario.tasks
    learner.begin_task(first)
    train(learner, first)
    learner.end_task(first)
    learner.begin_task(second)
    learner.train()
    return learner, first, second


def test_the_loss_is_the_mean_over_both_batches_worked_image_by_image(world, train):
    learner, _, second = with_one_task(world, train)
    batch = second.train.batch(slice(0, 8))
    kept = learner.memory.examples
    assert len(kept) == len(batch.y), "the whole memory is drawn"
    total = 0.0
    for x, label in [*zip(batch.x, batch.y + 2, strict=True), *zip(kept.x, kept.y, strict=True)]:
        features = learner.backbone(learner.input(x[None]), 0).features
        logits = torch.cat([head(features) for head in learner.heads], 1)[0]  # of all four classes
        total -= float(logits.log_softmax(0)[int(label)])
    assert float(learner(batch)["class"]) == pytest.approx(total / 16, rel=1e-5)


def test_the_memory_is_drawn_anew_as_large_as_the_batch_and_only_of_the_past(world, train):
    learner, first, second = with_one_task(world, train, buffer=20)
    seen = []
    whole = learner.class_loss
    learner.class_loss = lambda batch: (seen.append(batch), whole(batch))[1]
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        learner(second.train.batch(slice(0, 6)))
    assert [batch.task.tolist() for batch in seen] == [[1] * 6 + [0] * 6] * 3
    assert torch.equal(seen[0].x, seen[1].x)
    assert not torch.equal(seen[0].x, seen[2].x)
    images = {x.numpy().tobytes() for x in first.train.x}
    assert all(x.numpy().tobytes() in images for batch in seen for x in batch.x[6:])


def test_kept_images_vary_as_all_do(world, train):
    learner, first, _ = with_one_task(world, train)
    learner.augment = AugmentConfig(random_translate=2)
    images = {x.numpy().tobytes() for x in first.train.x}
    assert any(x.numpy().tobytes() not in images for x in learner.remembered(8).x)
    assert {x.numpy().tobytes() for x in learner.memory.x} <= images, "they are kept as they are"


def test_the_first_task_and_held_out_images_are_plain(world, train):
    learner, scenario = world("er", buffer=8)
    task = scenario.tasks[0]
    learner.begin_task(task)
    learner.train()
    batch = task.train.batch(slice(0, 8))
    assert float(learner(batch)["class"]) == float(F.cross_entropy(learner.all_logits(batch.x), batch.y))
    learner, _, second = with_one_task(world, train)
    learner.eval()
    state = torch.get_rng_state()
    held_out = Batch(*second.val.batch(slice(None)))
    assert float(learner(held_out)["class"]) == float(F.cross_entropy(learner.all_logits(held_out.x), held_out.y + 2))
    assert torch.equal(torch.get_rng_state(), state)
