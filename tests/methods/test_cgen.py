"""C-Gen: the network learns from generated images of all classes seen, and from nothing else."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from lockgate.methods.protocols import memory_use
from lockgate.types import Batch

GAN = {"gan": {"width": 0.02, "iterations": 2, "critic_steps": 1, "batch_size": 8}}


def in_second(world):
    """A learner in its second task, whose first has a generator."""
    learner, scenario = world("cgen", **GAN)
    learner.begin_task(scenario.tasks[0])
    learner.end_task(scenario.tasks[0])
    learner.begin_task(scenario.tasks[1])
    return learner, scenario.tasks[1]


def test_no_real_image_or_label_reaches_the_loss(world):
    learner, task = in_second(world)
    values = []
    for batch in (task.train.batch(slice(8)), Batch(torch.zeros_like(task.train.x[:8]), task.train.y[8:16] * 0, 0)):
        torch.manual_seed(3)
        values.append(learner(batch)["class"].item())
    assert values[0] == values[1]


def test_held_out_images_are_judged_as_they_are(world):
    learner, task = in_second(world)
    learner.eval()
    batch = task.val.batch(slice(None))
    expected = F.cross_entropy(learner.predict(batch.x, None), batch.y + 2)
    assert learner(batch)["class"].item() == expected.item()


def test_the_loss_is_that_of_generated_images_under_one_softmax(world):
    learner, task = in_second(world)
    torch.manual_seed(3)
    loss = learner(task.train.batch(slice(8)))["class"]
    torch.manual_seed(3)
    made = learner.generated(8)
    torch.testing.assert_close(loss, F.cross_entropy(learner.predict(made.x, None), made.y + 2 * made.task))


def test_every_class_seen_is_as_likely_as_any_other(world):
    learner, _ = in_second(world)
    torch.manual_seed(0)
    made = learner.generated(2000)
    counts = torch.bincount(made.y + 2 * made.task, minlength=4)
    assert counts.sum() == 2000
    assert (counts - 500).abs().max() < 100  # five deviations of a binomial


def test_only_the_network_learns_in_the_task_and_only_the_gan_before_it(world):
    learner, task = in_second(world)
    trainable = {name.split(".")[0] for name, p in learner.named_parameters() if p.requires_grad}
    assert trainable == {"backbone", "heads"}
    phase = learner.preparation(task)
    assert phase.trainable is learner.memory.gan
    assert phase.data is task.train
    assert learner.stage_steps([10], lambda _: 0) == [phase.epochs * phase.steps] == [2 * 2]
    assert memory_use(learner) == {"images": 0, "bytes": learner.memory.kept_bytes}
