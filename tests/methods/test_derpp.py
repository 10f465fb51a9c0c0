"""DER++: the three terms, and what the reservoir is offered when."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from lockgate.config import AugmentConfig, OptimConfig
from lockgate.memory.reservoir import slots
from lockgate.training.phase import Phase


def in_second_task(world, train, **options):
    learner, scenario = world("der++", **{"buffer": 8, **options})
    first, second, _ = scenario.tasks
    learner.begin_task(first)
    train(learner, first)
    learner.end_task(first)
    learner.begin_task(second)
    learner.train()
    return learner, first, second


def test_the_three_terms_worked_image_by_image(world, train):
    learner, _, second = in_second_task(world, train, alpha=0.3, beta=0.7)
    train(learner, second, count=1)  # so that both tasks are in the memory
    memory = learner.memory
    assert set(memory.task.tolist()) == {0, 1}
    learner.train()
    batch = second.train.batch(slice(0, 8))
    square, terms, new, old = 0.0, 0, 0.0, 0.0

    def outputs(x):
        features = learner.backbone(learner.input(x[None]), 0).features
        return torch.cat([head(features) for head in learner.heads], 1)[0].detach()

    for x, y, task, then in zip(memory.x, memory.y, memory.task, memory.logits, strict=True):
        now, classes = outputs(x), 2 if task == 0 else 4  # an image of the first task has logits of its two classes
        square += sum(float((now[c] - then[c]) ** 2) for c in range(classes))
        terms += classes
        old -= float(now.log_softmax(0)[int(y) + 2 * int(task)]) / 8
    for x, y in zip(batch.x, batch.y, strict=True):
        new -= float(outputs(x).log_softmax(0)[int(y) + 2]) / 8
    losses = learner(batch)  # both memory batches are the whole memory, in some order
    assert float(losses["class"]) == pytest.approx(new, rel=1e-5)
    assert float(losses["logits"]) == pytest.approx(0.3 * square / terms, rel=1e-4)
    assert float(losses["replay"]) == pytest.approx(0.7 * old, rel=1e-5)


def test_the_two_memory_batches_are_independent(world, train):
    learner, _, second = in_second_task(world, train, buffer=30)
    drawn = []
    whole = learner.remembered
    learner.remembered = lambda count: (drawn.append(whole(count)), drawn[-1])[1]
    learner(second.train.batch(slice(0, 8)))
    one, two = (set(rows.tolist()) for rows in drawn)
    assert len(one) == len(two) == 8
    assert one != two


def test_the_reservoir_gets_the_batch_after_the_step_with_the_logits_from_before_it(world):
    learner, scenario = world("der++", buffer=6)
    task = scenario.tasks[0]
    learner.begin_task(task)
    learner.train()
    optimiser = torch.optim.SGD(learner.parameters(), lr=0.5)
    batch = task.train.batch(slice(0, 5))
    before = learner.all_logits(batch.x).detach()
    losses = learner(batch)
    assert losses.keys() == {"class"}, "there is nothing to replay yet"
    losses["class"].backward()
    optimiser.step()
    assert learner.memory.kept_images == 0
    learner.after_step()
    assert torch.equal(learner.memory.x, batch.x)
    assert torch.equal(learner.memory.logits, before)
    assert not torch.allclose(learner.all_logits(batch.x), before)
    assert learner(batch).keys() == {"class", "logits", "replay"}, "from the second step on it replays"
    torch.manual_seed(5)
    place = slots(5, 5, 6, torch.Generator().manual_seed(int(torch.randint(2**62, ()))))
    kept = learner.memory.x.clone()
    torch.manual_seed(5)
    learner.after_step()
    kept = torch.cat([kept, kept[:1]])
    for slot, i in place.items():
        kept[slot] = batch.x[i]
    assert torch.equal(learner.memory.x, kept)
    assert int(learner.memory.seen) == 10


def test_images_are_kept_as_they_are_and_learnt_as_they_vary(world):
    learner, scenario = world("der++", buffer=20)
    task = scenario.tasks[0]
    vary = AugmentConfig(random_translate=3)
    phase = Phase((0,), learner, learner.begin_task(task), 1, 1, OptimConfig(), augment=vary)
    assert learner.schedule(phase).augment == AugmentConfig(), "the loop leaves the images to the method"
    learner.train()
    batch = task.train.batch(slice(0, 8))
    plain = float(F.cross_entropy(learner.all_logits(batch.x), batch.y))
    assert float(learner(batch)["class"]) != pytest.approx(plain, rel=1e-6)
    learner.after_step()
    assert torch.equal(learner.memory.x, batch.x)


def test_nothing_is_kept_of_held_out_images(world, train):
    learner, _, second = in_second_task(world, train)
    learner.eval()
    before = {name: value.clone() for name, value in learner.memory.state_dict().items()}
    assert learner(second.val.batch(slice(None))).keys() == {"class"}
    learner.end_task(second)
    assert all(torch.equal(value, before[name]) for name, value in learner.memory.state_dict().items())
