"""Learning without Forgetting against a loop over images; the teacher stays as it was and comes back on resume."""

from __future__ import annotations

import math

import pytest
import torch


def begun(world, train, count=3, backbone="simple_cnn", **options):
    """A learner inside its ``count``-th task, and all tasks."""
    learner, scenario = world("lwf", backbone, **options)
    for task in scenario.tasks[:count]:
        learner.begin_task(task)
        train(learner, task)
        if task.id < count - 1:
            learner.end_task(task)
    return learner, scenario


def softened(logits, temperature):
    """y_k^(1/T) / sum_j y_j^(1/T), as the paper writes it, in plain numbers."""
    y = [math.exp(v - max(logits)) for v in logits]
    y = [v / sum(y) for v in y]
    powers = [v ** (1 / temperature) for v in y]
    return [v / sum(powers) for v in powers]


@pytest.mark.parametrize(("temperature", "weight"), [(2.0, 1.0), (1.0, 0.5), (5.0, 3.0)])
def test_the_loss_is_that_of_a_loop_over_images(world, train, temperature, weight):
    learner, scenario = begun(world, train, temperature=temperature, weight=weight)
    batch = scenario.tasks[2].train.batch(slice(9))
    learner.eval()
    losses = learner.loss(batch)
    classes, distilled = 0.0, 0.0
    for image, label in zip(batch.x, batch.y.tolist(), strict=True):
        x = learner.input(image[None])
        new = learner.backbone(x, 0).features
        old = learner.teacher.backbone(x, 0).features
        classes -= math.log(softened(learner.heads[2](new)[0].tolist(), 1.0)[label]) / 9
        for o in (0, 1):
            wanted = softened(learner.teacher.heads[o](old)[0].tolist(), temperature)
            now = softened(learner.heads[o](new)[0].tolist(), temperature)
            distilled -= sum(a * math.log(b) for a, b in zip(wanted, now, strict=True)) / 9
    assert losses["class"].item() == pytest.approx(classes, rel=1e-4)
    assert losses["distillation"].item() == pytest.approx(weight * distilled, rel=1e-4)


def test_the_first_task_has_nothing_to_distil(world):
    learner, scenario = world("lwf")
    learner.begin_task(scenario.tasks[0])
    assert learner.teacher is None
    assert list(learner.loss(scenario.tasks[0].train.batch(slice(4)))) == ["class"]


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18"])
def test_the_teacher_is_the_network_from_before_the_task_and_stays_it(world, train, backbone):
    learner, scenario = begun(world, train, count=2, backbone=backbone)
    learner.end_task(scenario.tasks[1])
    x = scenario.tasks[2].train.x
    learner.eval()
    before = [learner.predict(x, t) for t in (0, 1)]
    learner.begin_task(scenario.tasks[2])
    bits = {name: value.clone() for name, value in learner.teacher.state_dict().items()}
    train(learner, scenario.tasks[2])  # in train mode: BatchNorm of a teacher in train mode would move
    assert learner.training
    assert not any(module.training for module in learner.teacher.modules())
    assert not any(p.requires_grad for p in learner.teacher.parameters())
    assert all(torch.equal(value, bits[name]) for name, value in learner.teacher.state_dict().items())
    features = learner.teacher.backbone(learner.input(x), 0).features
    for t, head in enumerate(learner.teacher.heads):
        assert torch.equal(head(features), before[t])
    assert not torch.equal(learner.eval().predict(x, 0), before[0]), "the network itself has learnt"


def test_old_heads_learn_from_the_teacher_alone(world, train):
    learner, scenario = begun(world, train, count=2)
    batch = scenario.tasks[1].train.batch(slice(8))
    learner.zero_grad()
    losses = learner.loss(batch)
    losses["class"].backward(retain_graph=True)
    assert learner.heads[0].weight.grad is None
    losses["distillation"].backward()
    assert learner.heads[0].weight.grad.abs().sum() > 0
    assert learner.heads[1].weight.requires_grad
    before = learner.heads[0].weight.detach().clone()
    train(learner, scenario.tasks[1])
    assert not torch.equal(learner.heads[0].weight, before)


def test_the_gradient_is_zero_where_nothing_has_changed_yet(world, train):
    """Cross-entropy with soft targets is least where both sides agree; its gradient there is (p - p') / T = 0."""
    learner, scenario = begun(world, train, count=2)
    learner.end_task(scenario.tasks[1])
    learner.begin_task(scenario.tasks[2])
    learner.zero_grad()
    learner.loss(scenario.tasks[2].train.batch(slice(8)))["distillation"].backward()
    assert max(float(p.grad.abs().max()) for p in learner.parameters() if p.grad is not None) < 1e-6


def test_distillation_holds_the_old_head_to_its_answers(world, train):
    """What the old head says of the new task's images, after training on it, against what it said before."""
    drift = {}
    for weight in (0.0, 5.0):
        learner, scenario = begun(world, train, count=1, weight=weight)
        learner.end_task(scenario.tasks[0])
        x = scenario.tasks[1].train.x
        before = learner.eval().predict(x, 0).softmax(1)
        learner.begin_task(scenario.tasks[1])
        train(learner, scenario.tasks[1], torch.optim.SGD(learner.parameter_groups(0.05)), count=20)
        drift[weight] = (learner.eval().predict(x, 0).softmax(1) - before).abs().mean().item()
    assert drift[5.0] < 0.7 * drift[0.0]


def test_the_teacher_leaves_with_its_task(world, train):
    learner, scenario = begun(world, train, count=2)
    assert any(name.startswith("teacher.") for name in learner.state_dict())
    learner.end_task(scenario.tasks[1])
    assert not any(name.startswith("teacher.") for name in learner.state_dict())


def test_a_resumed_run_makes_the_same_teacher_again(world, train):
    """As the engine resumes: the end of the task before, begin_task, and the state inside the task on top."""
    learner, scenario = begun(world, train, count=2, backbone="resnet18")
    learner.end_task(scenario.tasks[1])
    end = {name: value.clone() for name, value in learner.state_dict().items()}
    structure = learner.structure()
    learner.begin_task(scenario.tasks[2])
    teacher = {name: value.clone() for name, value in learner.teacher.state_dict().items()}
    train(learner, scenario.tasks[2])
    inside = {name: value.clone() for name, value in learner.state_dict().items()}

    other, _ = world("lwf", "resnet18")
    other.rebuild(structure)
    other.load_state_dict(end)
    other.begin_task(scenario.tasks[2])
    made = other.teacher.state_dict()
    assert made.keys() == teacher.keys()
    assert all(torch.equal(made[name], value) for name, value in teacher.items())
    other.load_state_dict(inside)
    batch = scenario.tasks[2].train.batch(slice(8))
    learner.eval()
    other.eval()
    for name, value in learner.loss(batch).items():
        assert torch.equal(other.loss(batch)[name], value)
