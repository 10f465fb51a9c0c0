"""Online EWC against hands and loops: per-image Fisher information, its recursion, the penalty and its gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from lockgate.backbones.base import Backbone, Stream
from lockgate.methods import ewc_online
from lockgate.methods.base import Context
from lockgate.methods.ewc_online import EWCOnline, EWCOnlineOptions
from lockgate.types import Examples, Task

PIXELS = [(10, 200), (255, 0), (30, 40), (128, 64), (5, 250)]


class TwoWeights(Backbone):
    """Two pixels to one feature, a x_1 + b x_2."""

    def __init__(self, a: float, b: float) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.tensor([a])), nn.Parameter(torch.tensor([b]))

    @property
    def features(self) -> int:
        return 1

    def forward(self, x, task):
        x = x.flatten(1)
        return Stream(self.a * x[:, :1] + self.b * x[:, 1:], ())


def logistic(a=1.5, b=-0.5, **options):
    """Logistic regression on two pixels: the head's logits are 0 and the feature."""
    learner = EWCOnline(
        Context(TwoWeights(a, b), EWCOnlineOptions(**{"normalise": False, **options}), (1, 1, 1), False)
    )
    add_head(learner)
    return learner


def add_head(learner):
    learner.add_task(2)
    with torch.no_grad():
        learner.heads[-1].weight.copy_(torch.tensor([[0.0], [1.0]]))
        learner.heads[-1].bias.zero_()


def images(pixels):
    return torch.tensor(pixels, dtype=torch.uint8).reshape(-1, 1, 1, 2)


def task_of(pixels, index=0):
    count = len(pixels)
    examples = Examples(images(pixels), torch.zeros(count).long(), torch.full((count,), index))
    return Task(index, (0, 1), examples, examples, examples)


def fisher_by_hand(a, b, pixels):
    """For z = a x_1 + b x_2 and p = sigmoid(z), E_y (d log p(y) / da)^2 = p (1 - p) x_1^2; and so for b."""
    sums = [0.0, 0.0]
    for first, second in pixels:
        x = (first / 255, second / 255)
        p = 1 / (1 + math.exp(-(a * x[0] + b * x[1])))
        for i in (0, 1):
            sums[i] += p * (1 - p) * x[i] ** 2 / len(pixels)
    return sums


def test_the_fisher_information_of_logistic_regression_by_hand():
    learner = logistic()
    assert learner.fisher_of(images(PIXELS), 0).tolist() == pytest.approx(fisher_by_hand(1.5, -0.5, PIXELS), rel=1e-5)


def test_the_fisher_information_is_of_single_images_not_of_their_mean_gradient():
    """Two images whose gradients cancel: their mean is zero, the Fisher information is not."""
    learner = logistic(a=0.0, b=0.0)
    with torch.no_grad():
        learner.input.mean.fill_(0.5)
    fisher = learner.fisher_of(images([(0, 0), (255, 255)]), 0)
    assert fisher.tolist() == pytest.approx([0.25 * 0.25] * 2)


def test_the_recursion_by_hand():
    learner = logistic(gamma=0.5)
    learner.end_task(task_of(PIXELS))
    first = fisher_by_hand(1.5, -0.5, PIXELS)
    assert learner.fisher.tolist() == pytest.approx(first, rel=1e-5)
    assert learner.anchor.tolist() == [1.5, -0.5]
    add_head(learner)
    with torch.no_grad():
        learner.backbone.a.fill_(0.25)
        learner.backbone.b.fill_(2.0)
    learner.end_task(task_of(PIXELS[:2], 1))
    second = fisher_by_hand(0.25, 2.0, PIXELS[:2])
    truth = [0.5 * one + two for one, two in zip(first, second, strict=True)]
    assert learner.fisher.tolist() == pytest.approx(truth, rel=1e-5)
    assert learner.anchor.tolist() == [0.25, 2.0]


def test_every_task_counts_alike_however_certain_it_is():
    learner = logistic(a=6.0, b=-5.0, normalise=True)
    learner.end_task(task_of(PIXELS))
    first = fisher_by_hand(6.0, -5.0, PIXELS)
    scaled = [f / (sum(first) / 2) for f in first]
    assert learner.fisher.tolist() == pytest.approx(scaled, rel=1e-4)
    assert learner.fisher.mean().item() == pytest.approx(1.0, rel=1e-5)
    add_head(learner)
    with torch.no_grad():
        learner.backbone.a.fill_(0.25)
        learner.backbone.b.fill_(2.0)
    learner.end_task(task_of(PIXELS, 1))
    assert learner.fisher.mean().item() == pytest.approx(2.0, rel=1e-5)


def test_a_task_without_any_information_adds_nothing():
    learner = logistic(normalise=True)
    with torch.no_grad():
        learner.heads[0].weight.zero_()  # both classes are as likely whatever the weights
    learner.end_task(task_of(PIXELS))
    assert learner.fisher.tolist() == [0.0, 0.0]


def test_the_penalty_and_its_gradient_by_hand():
    learner = logistic(strength=30.0, gamma=0.5)
    learner.end_task(task_of(PIXELS))
    add_head(learner)
    with torch.no_grad():
        learner.backbone.a.fill_(2.0)
        learner.backbone.b.fill_(-1.5)
    f = fisher_by_hand(1.5, -0.5, PIXELS)
    penalty = learner.loss(task_of(PIXELS, 1).train.batch(slice(None)))["penalty"]
    assert penalty.item() == pytest.approx(15 * (f[0] * 0.5**2 + f[1] * 1.0**2), rel=1e-5), "gamma has no part in it"
    penalty.backward()
    assert learner.backbone.a.grad.item() == pytest.approx(30 * f[0] * 0.5, rel=1e-5)
    assert learner.backbone.b.grad.item() == pytest.approx(-30 * f[1] * 1.0, rel=1e-5)


def test_the_first_task_has_no_penalty_and_the_second_begins_at_none(world):
    learner, scenario = world("ewc-online")
    first, second = scenario.tasks[:2]
    learner.begin_task(first)
    assert list(learner.loss(first.train.batch(slice(4)))) == ["class"]
    learner.end_task(first)
    learner.begin_task(second)
    losses = learner.loss(second.train.batch(slice(4)))
    assert list(losses) == ["class", "penalty"]
    assert losses["penalty"].item() == 0.0


def fisher_by_loop(learner, x, task):
    """One image and one label at a time, by plain autograd; eval mode."""
    learner.eval()
    parameters = list(learner.backbone.parameters())
    total = torch.zeros(sum(p.numel() for p in parameters))
    for image in x:
        log_p = learner.predict(image[None], task)[0].log_softmax(0)
        for value in log_p:
            gradients = torch.autograd.grad(value, parameters, retain_graph=True)
            total += value.exp().detach() * torch.cat([g.reshape(-1) for g in gradients]) ** 2
    return total / len(x)


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18", "mlp"])
@pytest.mark.parametrize("largest", [1, ewc_online.LARGEST], ids=["one image a pass", "many"])
def test_the_fisher_information_is_that_of_a_plain_loop(world, train, backbone, largest, monkeypatch):
    monkeypatch.setattr(ewc_online, "LARGEST", largest)
    learner, scenario = world("ewc-online", backbone, tasks=2)
    for task in scenario.tasks:
        learner.begin_task(task)
    train(learner, scenario.tasks[1])  # statistics and weights that are not those of the start
    learner.to(memory_format=torch.channels_last)
    x = scenario.tasks[1].train.x[:7]
    for task in (0, 1):
        assert torch.allclose(learner.fisher_of(x, task), fisher_by_loop(learner, x, task), rtol=1e-3, atol=1e-8)


def test_more_than_two_classes_are_all_in_the_expectation(world):
    learner, scenario = world("ewc-online", "mlp")
    learner.add_task(5)
    x = scenario.tasks[0].train.x[:6]
    assert torch.allclose(learner.fisher_of(x, 0), fisher_by_loop(learner, x, 0), rtol=1e-3, atol=1e-8)


def test_at_most_so_many_images_are_looked_at():
    singles = [fisher_by_hand(1.5, -0.5, [pixel]) for pixel in PIXELS]
    learner = logistic(fisher_images=1)
    learner.end_task(task_of(PIXELS))
    assert any(learner.fisher.tolist() == pytest.approx(single, rel=1e-5) for single in singles)
    learner = logistic(fisher_images=3)
    torch.manual_seed(3)
    index = torch.randperm(5)[:3].tolist()
    torch.manual_seed(3)
    learner.end_task(task_of(PIXELS))
    assert learner.fisher.tolist() == pytest.approx(fisher_by_hand(1.5, -0.5, [PIXELS[i] for i in index]), rel=1e-5)


@pytest.mark.parametrize(("images_of_task", "expected"), [(40, 40), (300, 100), (1600, 200), (9000, 500)])
def test_half_an_epoch_is_spent_at_most_or_a_hundred_images(images_of_task, expected):
    """A black image costs nothing and counts nothing: with one in ``expected`` bright, the mean tells how many."""
    learner = logistic(a=0.0, b=0.0)
    torch.manual_seed(5)
    bright = int(torch.randperm(images_of_task)[0])  # the first that is looked at
    torch.manual_seed(5)
    learner.end_task(task_of([(255, 255) if i == bright else (0, 0) for i in range(images_of_task)]))
    assert learner.fisher.tolist() == pytest.approx([0.25 / expected] * 2, rel=1e-5)


def test_ending_a_task_moves_nothing_but_fisher_and_anchor(world, train):
    learner, scenario = world("ewc-online", "resnet18")
    task = scenario.tasks[0]
    learner.begin_task(task)
    train(learner, task)
    learner.zero_grad()
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    learner.train()
    learner.end_task(task)
    assert learner.training
    assert all(p.grad is None for p in learner.parameters())
    changed = [name for name, value in learner.state_dict().items() if not torch.equal(value, before[name])]
    assert sorted(changed) == ["anchor", "fisher"]
    assert not learner.fisher.requires_grad
    assert not learner.anchor.requires_grad


def test_heads_have_no_part_in_it(world):
    learner, scenario = world("ewc-online")
    for task in scenario.tasks[:2]:
        learner.begin_task(task)
        learner.end_task(task)
    shared = sum(p.numel() for p in learner.backbone.parameters())
    assert learner.fisher.shape == learner.anchor.shape == (shared,)
    assert torch.equal(learner.anchor[: learner.backbone.conv1.weight.numel()], learner.backbone.conv1.weight.flatten())


def test_the_penalty_holds_on_to_what_mattered(world, train):
    """Measured as it should be: the distance to the old parameters, weighted by their Fisher information."""
    moved = {}
    for strength in (0.0, 1.0):
        learner, scenario = world("ewc-online", strength=strength)
        for task in scenario.tasks[:2]:
            learner.begin_task(task)
            train(learner, task, count=10)
            if task.id == 0:
                learner.end_task(task)
        moved[strength] = float((learner.fisher * (learner.shared() - learner.anchor) ** 2).sum().detach())
    assert moved[1.0] < 0.2 * moved[0.0]
