"""A-GEM: the projection, and where its two gradients come from."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.methods.agem import EPSILON, project
from lockgate.methods.protocols import memory_use
from lockgate.types import Batch

vectors = st.integers(0, 2**32).map(lambda seed: torch.Generator().manual_seed(seed))


@given(vectors, st.integers(1, 40), st.floats(-8, 8), st.floats(-8, 8))
@settings(max_examples=200, deadline=None)
def test_the_projected_gradient_never_opposes_the_reference_and_is_left_alone_where_it_did_not(rng, size, a, b):
    g = torch.randn(size, generator=rng, dtype=torch.float64) * 10**a
    reference = torch.randn(size, generator=rng, dtype=torch.float64) * 10**b
    now = project(g, reference)
    left = 1e-12 + EPSILON / float(reference @ reference)  # of a tiny reference, the epsilon leaves something over
    scale = float(g.norm() * reference.norm())
    assert float(now @ reference) >= -left * scale
    if float(g @ reference) >= 0:
        assert torch.equal(now, g)
    else:
        assert float(now @ reference) == pytest.approx(0, abs=left * scale)
        assert float(now.norm()) <= float(g.norm()) * (1 + 1e-12)
        # The nearest of all that do not oppose: the way there is along the reference.
        way = g - now
        assert float(way.norm() * reference.norm()) == pytest.approx(abs(float(way @ reference)), rel=1e-9)


def test_the_projection_worked_by_hand():
    g, reference = torch.tensor([3.0, -4.0]), torch.tensor([0.0, 2.0])
    assert project(g, reference).tolist() == [3.0, 0.0]
    assert project(g, -reference).tolist() == [3.0, -4.0]
    assert project(g, torch.zeros(2)).tolist() == [3.0, -4.0]
    assert torch.isfinite(project(g, torch.tensor([0.0, 1e-25]))).all()


def with_one_task(world, train, backbone="simple_cnn", buffer=1000):
    """A learner inside its second task; the memory holds all of the first, so that a large draw is all of it."""
    learner, scenario = world("agem", backbone, buffer=buffer)
    first, second, _ = scenario.tasks
    learner.begin_task(first)
    train(learner, first)
    learner.end_task(first)
    learner.begin_task(second)
    return learner, first, second


def gradient(learner, x, labels):
    """The gradient of cross-entropy over all classes, in evaluation mode, as one vector."""
    learner.eval()
    features = learner.backbone(learner.input(x), 0).features
    loss = F.cross_entropy(torch.cat([head(features) for head in learner.heads], 1), labels)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(learner.parameters()))])


def flat(learner):
    return torch.cat([p.grad.flatten() for p in learner.parameters()])


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18", "mlp"])
def test_the_gradient_of_a_step_is_the_projection_of_the_tasks_on_the_memorys(world, train, backbone):
    learner, first, second = with_one_task(world, train, backbone)
    batch = Batch(second.train.x, second.train.y, second.train.task)  # as many images as the memory holds
    assert learner.memory.kept_images == len(batch.y)
    learner.train()
    learner.zero_grad()
    learner(batch)["class"].backward()
    reference = gradient(learner, first.train.x, first.train.y)
    learner.train()
    sizes = [p.numel() for p in learner.parameters()]
    for p, part in zip(learner.parameters(), reference.split(sizes), strict=True):
        p.grad -= 2 * part.view_as(p)  # so that there is something to project, whatever the task's gradient
    g = flat(learner)
    assert float(g @ reference) < 0
    learner.after_backward()
    now = flat(learner)
    wanted = g - (g @ reference) / (reference @ reference) * reference
    torch.testing.assert_close(now, wanted, atol=1e-4 * float(g.abs().max()), rtol=1e-3)
    assert abs(float(now @ reference)) < 1e-4 * float(g.norm() * reference.norm())
    assert float((now - g).norm()) > 0.1 * float(g.norm())


def test_a_gradient_that_agrees_with_the_memory_is_left_alone(world, train):
    learner, first, _ = with_one_task(world, train)
    learner.train()
    learner.zero_grad()
    learner(Batch(first.train.x, first.train.y, first.train.task))["class"].backward()  # the memory's own images
    before = flat(learner)
    learner.after_backward()
    assert torch.equal(flat(learner), before)


def test_the_first_task_is_plain_training(world):
    learner, scenario = world("agem")
    task = scenario.tasks[0]
    learner.begin_task(task)
    learner(task.train.batch(slice(0, 8)))["class"].backward()
    before = flat(learner)
    state = torch.get_rng_state()
    learner.after_backward()
    assert torch.equal(flat(learner), before)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_reference_moves_no_statistics_and_leaves_the_mode(world, train):
    learner, _, second = with_one_task(world, train, "resnet18")
    learner.train()
    learner(second.train.batch(slice(0, 8)))["class"].backward()
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    learner.after_backward()
    assert all(torch.equal(value, before[name]) for name, value in learner.state_dict().items())
    assert all(module.training for module in learner.modules())


def test_the_reference_batch_is_as_large_as_the_tasks_and_drawn_anew(world, train):
    learner, first, second = with_one_task(world, train)
    seen = []
    whole = learner.class_loss
    learner.class_loss = lambda batch: (seen.append(batch), whole(batch))[1]
    learner.train()
    for seed in (0, 0, 1):
        learner(second.train.batch(slice(0, 8)))["class"].backward()
        torch.manual_seed(seed)
        learner.after_backward()
    drawn = seen[1::2]
    assert [len(batch.y) for batch in drawn] == [8, 8, 8]
    assert torch.equal(drawn[0].x, drawn[1].x)
    assert not torch.equal(drawn[0].x, drawn[2].x)
    assert all(set(batch.task.tolist()) == {0} for batch in drawn)
    images = {x.numpy().tobytes() for x in first.train.x}
    assert all(len({x.numpy().tobytes() for x in batch.x} & images) == 8 for batch in drawn)


def test_the_memory_is_shared_equally_and_reaches_all_past_tasks(world):
    learner, scenario = world("agem", buffer=13)
    for t, task in enumerate(scenario.tasks):
        assert len(learner.begin_task(task)) == len(task.train)  # the memory is not trained on
        learner.end_task(task)
        assert memory_use(learner) == {"images": 13, "bytes": 13 * task.train.x[0].numel()}
        assert torch.bincount(learner.memory.task).tolist() == [
            13 // (t + 1) + (i < 13 % (t + 1)) for i in range(t + 1)
        ]


def test_the_reference_is_of_all_past_tasks_together(world, monkeypatch):
    learner, scenario = world("agem", buffer=40)
    for task in scenario.tasks[:2]:
        learner.begin_task(task)
        learner.end_task(task)
    drawn = []
    loss = learner.class_loss

    def noted(batch):
        drawn.extend(batch.task.tolist())
        return loss(batch)

    learner.begin_task(scenario.tasks[2])
    learner.train()
    learner(scenario.tasks[2].train.batch(slice(0, 8)))["class"].backward()
    monkeypatch.setattr(learner, "class_loss", noted)
    torch.manual_seed(0)
    for _ in range(25):
        learner.after_backward()
    assert len(drawn) == 25 * 8
    assert 0.35 < drawn.count(0) / len(drawn) < 0.65, "as many of one task as of the other, but for chance"
    assert set(drawn) == {0, 1}
