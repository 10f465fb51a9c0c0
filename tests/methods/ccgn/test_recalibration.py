"""When a task ends, its stream's statistics are those of its images as they are; nothing else moves."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny

from lockgate.methods.ccgn import recalibration
from lockgate.methods.ccgn.gating import stream_norms
from lockgate.methods.ccgn.recalibration import recalibrate
from lockgate.runs.build import build_learner, build_scenario

MOVED = {"random_translate": 2, "random_affine": 0.3}


def begun(backbone="simple_cnn", **over):
    """A learner in its first task, its gates' statistics those of nothing."""
    experiment = tiny.experiment("ccgn", backbone, **over)
    scenario = build_scenario(experiment)
    torch.manual_seed(0)
    learner = build_learner(experiment, scenario.image_shape)
    learner.begin_task(scenario.tasks[0])
    for norm in stream_norms(learner.backbone, 0):
        norm.running_mean.fill_(7.0)
    return learner.eval(), scenario.tasks[0]


def inputs_of(norms, learner, x):
    """What meets each norm in evaluation."""
    seen: dict[int, torch.Tensor] = {}
    handles = [
        norm.register_forward_hook(lambda _, given, __, key=key: seen.update({key: given[0]}))
        for key, norm in enumerate(norms)
    ]
    with torch.no_grad():
        learner.backbone(learner.input(x), 0)
    for handle in handles:
        handle.remove()
    return [seen[key].transpose(0, 1).flatten(1) for key in range(len(norms))]  # (features, ...)


@pytest.mark.parametrize("backbone", tiny.BACKBONES)
def test_statistics_are_those_of_the_tasks_images(backbone):
    learner, task = begun(backbone)
    norms = stream_norms(learner.backbone, 0)
    recalibrate(learner, task.train, 0)
    for norm, met in zip(norms, inputs_of(norms, learner, task.train.x), strict=True):
        torch.testing.assert_close(norm.running_mean, met.mean(1), rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(norm.running_var, met.var(1), rtol=5e-2, atol=1e-3)


def test_the_first_gates_are_to_the_digit_what_a_loop_finds():
    learner, task = begun()
    gate = next(iter(learner.gated.values())).gate(0)
    recalibrate(learner, task.train, 0)
    with torch.no_grad():
        pooled = torch.stack([learner.input(x[None]).mean((2, 3))[0] for x in task.train.x])
        met = pooled @ gate.squeeze.weight.T + gate.squeeze.bias
    torch.testing.assert_close(gate.norm.running_mean, met.mean(0))
    torch.testing.assert_close(gate.norm.running_var, met.var(0))


def test_of_several_batches_it_is_the_mean_and_what_is_left_over_waits(monkeypatch):
    monkeypatch.setattr(recalibration, "eval_batch", lambda _: 10)
    learner, task = begun()
    gate = next(iter(learner.gated.values())).gate(0)
    torch.manual_seed(3)
    order = torch.randperm(len(task.train))
    torch.manual_seed(3)
    recalibrate(learner, task.train, 0)
    with torch.no_grad():
        parts = task.train.x[order].split(10)
        met = [gate.squeeze(learner.input(part).mean((2, 3))) for part in parts if len(part) == 10]
    assert len(met) > 1
    torch.testing.assert_close(gate.norm.running_mean, torch.stack([part.mean(0) for part in met]).mean(0))


@pytest.mark.parametrize("backbone", tiny.BACKBONES)
def test_no_weight_moves_and_training_goes_on_as_before(backbone):
    learner, task = begun(backbone)
    norms = stream_norms(learner.backbone, 0)
    momenta = [norm.momentum for norm in norms]
    before = {name: value.clone() for name, value in learner.named_parameters()}
    recalibrate(learner, task.train, 0)
    assert all(torch.equal(value, before[name]) for name, value in learner.named_parameters())
    assert [norm.momentum for norm in norms] == momenta
    assert not any(module.training for module in learner.modules())


@pytest.mark.parametrize(("augment", "anew"), [({}, False), (MOVED, True), ({**MOVED, "images": "rehearsed"}, False)])
def test_only_where_the_tasks_images_were_varied(augment, anew):
    experiment = tiny.experiment("ccgn", augment={"random_translate": 0, **augment})
    scenario = build_scenario(experiment)
    torch.manual_seed(0)
    learner = build_learner(experiment, scenario.image_shape)
    task = scenario.tasks[0]
    learner.begin_task(task)
    norm = next(iter(learner.gated.values())).gate(0).norm
    before = norm.running_mean.clone()
    learner.end_task(task)
    assert torch.equal(norm.running_mean, before) != anew
