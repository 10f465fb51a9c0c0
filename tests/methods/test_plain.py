"""The learner's common hooks, fine-tuning, and joint training, against loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.backbones import BACKBONES
from lockgate.config import ModelConfig
from lockgate.methods.base import Context
from lockgate.methods.joint import Joint
from lockgate.methods.network import Standardise
from lockgate.methods.protocols import Auditable, TaskReport, report_of
from lockgate.scenario import join
from lockgate.types import Batch


@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_standardised_by_channel(channels):
    x = torch.randint(0, 200, (7, channels, 5, 4), dtype=torch.uint8)
    part = Standardise(channels)
    assert torch.allclose(part(x), x.float() / 255)
    part.fit(torch.split(x, 3))
    a = x.numpy().astype(np.float64) / 255
    truth = (a - a.mean((0, 2, 3), keepdims=True)) / a.std((0, 2, 3), keepdims=True, ddof=1)
    assert np.allclose(part(x).numpy(), truth, atol=1e-5)


def test_counting_pixels_gives_the_bits_that_earlier_versions_had():
    for seed in range(20):
        x = torch.randint(0, 256, (9, 3, 11, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
        part = Standardise(3)
        part.fit(torch.split(x, 4))
        std, mean = torch.std_mean(x.transpose(0, 1).flatten(1).double() / 255, dim=1)
        assert torch.equal(part.mean.flatten(), mean.float())
        assert torch.equal(part.std.flatten(), std.float())


def test_a_constant_channel_stays_finite():
    part = Standardise(1)
    part.fit([torch.full((3, 1, 2, 2), 7, dtype=torch.uint8)])
    assert torch.isfinite(part(torch.full((1, 1, 2, 2), 200, dtype=torch.uint8))).all()


def test_statistics_come_from_the_first_task_only(world):
    learner, scenario = world("finetune")
    learner.begin_task(scenario.tasks[0])
    mean = learner.input.mean.clone()
    truth = scenario.tasks[0].train.x.double().mean((0, 2, 3)) / 255
    assert torch.allclose(mean.flatten().double(), truth, atol=1e-6)
    learner.begin_task(scenario.tasks[1])
    assert torch.equal(learner.input.mean, mean)


def test_finetuning_trains_the_network_and_only_the_newest_head(world, train):
    learner, scenario = world("finetune")
    for task in scenario.tasks[:2]:
        learner.begin_task(task)
    head = learner.heads[0].weight.detach().clone()
    conv = learner.backbone.conv1.weight.detach().clone()
    newest = learner.heads[1].weight.detach().clone()
    train(learner, scenario.tasks[1])
    assert torch.equal(learner.heads[0].weight, head)
    assert not torch.equal(learner.backbone.conv1.weight, conv)
    assert not torch.equal(learner.heads[1].weight, newest)


def test_finetuning_promises_nothing_and_past_answers_drift(world, train):
    learner, scenario = world("finetune")
    first = scenario.tasks[0]
    learner.begin_task(first)
    train(learner, first)
    before = learner.eval().predict(first.test.x, 0)
    learner.begin_task(scenario.tasks[1])
    train(learner, scenario.tasks[1])
    assert not torch.equal(learner.eval().predict(first.test.x, 0), before)
    assert not isinstance(learner, Auditable)
    assert report_of(learner) == TaskReport()


def test_without_a_task_all_heads_answer_side_by_side(world):
    learner, scenario = world("finetune")
    for task in scenario.tasks:
        learner.begin_task(task)
    x = scenario.tasks[0].test.x
    learner.eval()
    everything = learner.predict(x, None)
    assert everything.shape == (len(x), 6)
    assert torch.equal(everything, torch.cat([learner.predict(x, t) for t in range(3)], 1))


def test_a_head_is_a_linear_map_of_the_features(world):
    learner, scenario = world("finetune")
    learner.begin_task(scenario.tasks[0])
    x = scenario.tasks[0].test.x
    features = learner.eval().backbone((x / 255 - learner.input.mean) / learner.input.std, 0).features
    head = learner.heads[0]
    assert torch.allclose(learner.predict(x, 0), features @ head.weight.T + head.bias, atol=1e-6)


@settings(deadline=None, max_examples=20)
@given(
    classes=st.lists(st.integers(2, 4), min_size=1, max_size=4),
    pairs=st.lists(st.tuples(st.integers(0, 999), st.integers(0, 999)), min_size=1, max_size=9),
    seed=st.integers(0, 999),
)
def test_joint_classifies_each_image_by_its_own_head(classes, pairs, seed):
    torch.manual_seed(seed)
    backbone = BACKBONES["mlp"]((1, 4, 4), Joint.layer_factory("he", None), ModelConfig(width=5))
    learner = Joint(Context(backbone, None, (1, 4, 4), False))
    for count in classes:
        learner.add_task(count)
    task = [t % len(classes) for t, _ in pairs]
    y = [label % classes[t] for t, (_, label) in zip(task, pairs, strict=True)]
    x = torch.randint(0, 256, (len(pairs), 1, 4, 4), dtype=torch.uint8)
    loss = learner.loss(Batch(x, torch.tensor(y), torch.tensor(task)))["class"]
    loss.backward()
    features = backbone(x / 255, 0).features
    truth = 0.0
    for i, t in enumerate(task):
        truth = truth - F.log_softmax(learner.heads[t](features[i]), 0)[y[i]] / len(task)
    assert loss.item() == pytest.approx(truth.item(), rel=1e-4, abs=1e-6)
    wanted = torch.autograd.grad(truth, list(learner.heads.parameters()), allow_unused=True)
    for p, g in zip(learner.heads.parameters(), wanted, strict=True):
        assert torch.allclose(p.grad, torch.zeros_like(p) if g is None else g, atol=1e-5)


def test_joint_is_given_all_tasks_at_once_and_trains_every_head(world, train):
    learner, scenario = world("joint")
    together = join(scenario.tasks)
    data = learner.begin_task(together)
    assert len(data) == sum(len(task.train) for task in scenario.tasks)
    assert [head.out_features for head in learner.heads] == [2, 2, 2]
    before = [head.weight.detach().clone() for head in learner.heads]
    train(learner, together)
    assert not any(torch.equal(head.weight, b) for head, b in zip(learner.heads, before, strict=True))


@pytest.mark.parametrize("method", ["finetune", "ccgn"])
def test_the_class_loss_weighs_classes_as_the_task_asks_for(world, method):
    learner, scenario = world(method)
    task = replace(scenario.tasks[0], weights=(3.0, 0.5))
    learner.begin_task(task)
    learner.eval()
    batch = task.train.batch(slice(0, None, 4))
    assert set(batch.y.tolist()) == {0, 1}
    rows = zip(learner.logits(batch.x, 0).log_softmax(1), batch.y.tolist(), strict=True)
    weighted = [(task.weights[y], -row[y]) for row, y in rows]
    truth = sum(w * loss for w, loss in weighted) / sum(w for w, _ in weighted)
    assert torch.isclose(learner.loss(batch)["class"], truth)
    learner.begin_task(scenario.tasks[1])
    learner.eval()
    plain = F.cross_entropy(learner.logits(batch.x, 1), batch.y)
    assert torch.isclose(learner.loss(batch)["class"], plain), "the next task has weights of its own, or none"
