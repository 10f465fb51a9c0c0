"""Which modules belong to a task's stream, and in which mode they are, against a walk over all modules by name."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny

from lockgate.methods.ccgn.gating import as_in_evaluation, deciding, gated_layers, stream_norms

SHAPES = pytest.mark.parametrize("backbone", tiny.BACKBONES)


def of_two_tasks(backbone):
    learner, scenario = tiny.world("ccgn", backbone, width=4)
    for task in scenario.tasks[:2]:
        learner.begin_task(task)
    return learner.train()


def norms_by_name(learner, task):
    """Everything called a norm's, of a gate's or of a layer's, that has running statistics."""
    places = (f".gates.{task}.", f".norms.{task}")
    return {
        name: module
        for name, module in learner.backbone.named_modules()
        if isinstance(getattr(module, "running_mean", None), torch.Tensor) and any(p in f".{name}" for p in places)
    }


def training(learner):
    return {name: module.training for name, module in learner.backbone.named_modules()}


def changed(before, learner):
    """The names of what is in evaluation mode and was not."""
    return {name for name, mode in training(learner).items() if mode != before[name]}


@SHAPES
def test_layers_are_in_the_order_of_a_streams_gates(backbone):
    learner = of_two_tasks(backbone).eval()
    layers = gated_layers(learner.backbone)
    order = []
    for name, layer in layers.items():
        layer.gate(1).register_forward_hook(lambda _, __, gate, name=name: order.append((name, gate)))
    gates = learner.backbone(torch.rand(3, 3, 16, 16), 1).gates
    called = dict(order)
    assert list(called.keys() - layers.keys()) == []
    assert len(gates) == len(layers)
    for name, gate in zip(layers, gates, strict=True):
        assert torch.equal(called[name], gate)


@SHAPES
def test_norms_of_a_stream_are_those_of_its_gates_and_layers_each_once(backbone):
    learner = of_two_tasks(backbone)
    for task in (0, 1):
        found, wanted = stream_norms(learner.backbone, task), norms_by_name(learner, task)
        assert len(found) == len(wanted) >= len(gated_layers(learner.backbone))
        assert {id(norm) for norm in found} == {id(norm) for norm in wanted.values()}


@SHAPES
def test_annealing_holds_noise_and_statistics_of_the_newest_stream_alone(backbone):
    learner = of_two_tasks(backbone)
    gates = [layer.gate(1) for layer in learner.gated.values()]
    before, held = training(learner), norms_by_name(learner, 1).keys()
    for annealing, noisy in ((True, False), (False, True), (False, False)):
        with deciding(learner.backbone, 1, annealing, noisy):
            assert {gate.noisy for gate in gates} == {noisy}
            assert changed(before, learner) == (held if annealing else set())
        assert training(learner) == before


@SHAPES
def test_as_in_evaluation_gates_and_norms_rest_and_go_back_to_their_modes_whatever_happens(backbone):
    learner = of_two_tasks(backbone)
    before = training(learner)
    resting = {name for name in before if ".gates.1" in name} | norms_by_name(learner, 1).keys()

    def interrupted():
        with as_in_evaluation(learner.backbone, 1):
            assert changed(before, learner) == resting
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert training(learner) == before
