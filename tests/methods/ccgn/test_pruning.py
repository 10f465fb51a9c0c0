"""Pruned filters are not computed: the stream is the one in which their gates are shut, forward and backward."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny

from lockgate.methods.ccgn.pruning import Moment, Pruning
from lockgate.runs.build import build_learner, build_scenario
from lockgate.types import Batch

SHAPES = pytest.mark.parametrize("backbone", tiny.BACKBONES)


def begun(backbone, **options):
    experiment = tiny.experiment("ccgn", backbone, options={"sparsity_warmup": 0, "open_bias": 0.5, **options})
    scenario = build_scenario(experiment)
    torch.manual_seed(0)
    learner = build_learner(experiment, scenario.image_shape)
    learner.begin_task(scenario.tasks[0])
    return learner, scenario.tasks[0]


def prune_some(learner):
    """Prune about half of each layer, and the same in every layer that writes the same channels."""
    rng = torch.Generator().manual_seed(1)
    for group in learner.backbone.channels:
        pruned = torch.rand(group.writers[0].width, generator=rng) < 0.5
        pruned[0] = False
        for layer in group.writers:
            layer.gate(0).pruned.copy_(pruned)


def losses_and_gradients(learner, task):
    learner.zero_grad()
    torch.manual_seed(2)  # the same noise
    losses = learner(Batch(task.train.x[:16], task.train.y[:16], task.train.task[:16]))
    sum(losses.values()).backward()
    grads = {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in learner.named_parameters()}
    return {k: v.detach() for k, v in losses.items()}, grads


@SHAPES
def test_a_pruned_step_is_the_step_with_those_gates_shut(backbone):
    learner, task = begun(backbone, prune=0.0)
    learner.train()
    state = {k: v.clone() for k, v in learner.state_dict().items()}
    prune_some(learner)  # gates shut, everything still computed
    slow = losses_and_gradients(learner, task)
    slow_state = {k: v.clone() for k, v in learner.state_dict().items()}
    learner.load_state_dict(state)
    prune_some(learner)
    learner.backbone.route(range(len(learner.heads)))  # and now not computed
    assert any(layer.writes for layer in learner.gated.values())
    fast = losses_and_gradients(learner, task)
    torch.testing.assert_close(fast[0], slow[0], rtol=1e-4, atol=1e-5)
    for name, layer in learner.gated.items():
        shut = layer.gate(0).pruned
        weight = next(n for n, p in learner.named_parameters() if p is layer.weight)
        open_ = ~shut
        torch.testing.assert_close(fast[1][weight][open_], slow[1][weight][open_], rtol=1e-3, atol=1e-5, msg=name)
        assert not fast[1][weight][shut].any(), "a filter that is not computed got a gradient"
    for name, value in learner.state_dict().items():
        if name.endswith(("fires", "images")):
            torch.testing.assert_close(value, slow_state[name], msg="what pruned gates would have done is counted")


@SHAPES
def test_evaluation_agrees_too(backbone):
    learner, task = begun(backbone)
    learner.eval()
    prune_some(learner)
    with torch.no_grad():
        slow = learner.predict(task.test.x, 0)
        learner.backbone.route(range(len(learner.heads)))
        fast = learner.predict(task.test.x, 0)
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)


def test_channels_are_pruned_by_how_often_they_fired_and_come_back():
    learner, _ = begun("simple_cnn")
    gate = learner.gated["conv1"].gate(0)
    gate.fires.copy_(torch.tensor([0.0, 1, 2, 50, 100, 0, 0, 3]))
    gate.images.fill_(100)
    gate.prune(0.02)
    assert gate.pruned.tolist() == [True, True, False, False, False, True, True, False]
    gate.fires.copy_(torch.tensor([30.0, 0, 0, 0, 0, 0, 0, 0]))
    gate.images.fill_(100)
    gate.prune(0.02)
    assert gate.pruned.tolist() == [False, True, True, True, True, True, True, True]


def test_a_silent_layer_keeps_its_liveliest_channel():
    learner, _ = begun("simple_cnn")
    gate = learner.gated["conv1"].gate(0)
    gate.images.fill_(100)
    gate.prune(0.5)
    assert int((~gate.pruned).sum()) == 1
    (alive,) = torch.nonzero(~gate.pruned)
    gate.fires.copy_(torch.arange(8.0) != alive)
    gate.images.fill_(100)
    gate.prune(0.5, for_good=True)  # the one that was left is kept, though all others would now be livelier
    assert torch.nonzero(~gate.pruned).tolist() == [alive.tolist()]


def test_the_channel_that_stays_is_one_that_the_seal_lets_open():
    learner, _ = begun("simple_cnn")
    gate = learner.gated["conv1"].gate(0)
    gate.seal.copy_(torch.arange(8) < 3)  # what the task was offered
    gate.fires.copy_(torch.arange(8.0))  # livelier outside of it
    gate.images.fill_(100)
    gate.prune(0.5)
    assert torch.nonzero(~gate.pruned).tolist() == [[2]]


def test_pruning_waits_for_a_look_after_sparsity_set_in_and_ends_with_the_task():
    learner, task = begun("simple_cnn", sparsity_warmup=1, prune=0.9, open_bias=-1.0)
    learner.train()
    pruned = []
    for step in range(5):
        learner.epoch, learner.step = step // 2, step  # epochs of two steps, a look in each: 2 x 4 images x 0.9 > 6.4
        learner(Batch(task.train.x[:4], task.train.y[:4], task.train.task[:4]))
        pruned.append(sum(int(layer.gate(0).pruned.sum()) for layer in learner.gated.values()))
    assert pruned[:4] == [0, 0, 0, 0]  # sparsity sets in at step 2, so step 4 is the first look after it
    assert pruned[4] > 0
    learner.end_task(task)
    assert all(not layer.gate(0).pruned.any() for layer in learner.gated.values())


@pytest.mark.parametrize("annealing", [False, True])
def test_a_pruned_filter_whose_gate_would_fire_again_is_computed_again_unless_annealing(annealing):
    learner, task = begun("simple_cnn", prune=0.5, anneal=0.5)
    learner.train()
    layer = learner.gated["conv1"]
    excite = layer.gate(0).excite
    with torch.no_grad():
        excite.weight.zero_()
        excite.bias.fill_(20.0)
        excite.bias[2] = -20.0
    computed = []
    for step in range(5):
        if step == 2:
            with torch.no_grad():
                excite.bias[2] = 20.0
            learner.progress = 0.6 if annealing else 0.4
        learner.step = step
        learner(Batch(task.train.x, task.train.y, task.train.task))
        computed.append(2 in layer.writes.get(0, torch.arange(layer.width)).tolist())
    # Silent in steps 0 and 1: pruned by the looks of steps 1 and 2. It would have fired in step 2: back in step 3.
    assert computed == ([True, False, False, False, False] if annealing else [True, False, False, True, True])


@pytest.mark.parametrize("seal", [False, True])
def test_what_was_pruned_to_the_end_stays_shut_with_the_seal_and_without(seal):
    learner, task = begun("simple_cnn", prune=0.001, open_bias=3.0, seal=seal)
    prune_some(learner)
    learner.backbone.route([0])
    pruned = {name: layer.gate(0).pruned.clone() for name, layer in learner.gated.items()}
    learner.eval()
    before = learner.predict(task.test.x, 0)
    learner.end_task(task)
    gates = learner.backbone(learner.input(task.test.x), 0).gates
    for gate, (name, layer) in zip(gates, learner.gated.items(), strict=True):
        assert pruned[name].any()
        assert not gate[:, pruned[name]].any()
        assert bool(layer.gate(0).seal.all()) is False
    torch.testing.assert_close(learner.predict(task.test.x, 0), before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("below", "images", "interval"), [(0.001, 64, 100), (0.001, 16, 100), (0.001, 256, 25), (0.2, 8, 4), (0.9, 32, 1)]
)
def test_a_look_waits_for_images_enough_to_tell_a_silent_gate_from_chance(below, images, interval):
    looks = [step for step in range(1, 301) if Pruning(below).due(at(step, images), budgeted=False)]
    assert looks == list(range(interval, 301, interval))
    assert not Pruning(0.0).due(at(0, images), budgeted=False)


def test_filters_are_ranked_for_a_budget_by_what_gates_did_of_late_and_not_by_a_few_images():
    looks = [step for step in range(1, 301) if Pruning(0.001).due(at(step, 64, hold=301), budgeted=True)]
    assert looks == [100, 200]  # one at 300 would leave 64 images
    looks = [step for step in range(1, 301) if Pruning(0.001).due(at(step, 64, hold=302), budgeted=True)]
    assert looks == [100, 200, 300]
    looks = [step for step in range(1, 301) if Pruning(0.0).due(at(step, 64, hold=250), budgeted=True)]
    assert looks == [100, 200, 300], "with nothing to prune, what was long ago is forgotten all the same"


def at(step, images, hold=10_000):
    """A moment of a task whose budget is to be held from the step ``hold`` on."""
    return Moment(step, images, sparse=True, annealing=False, ahead=max(0, hold - step))


def test_when_a_budget_is_held_the_last_look_is_not_of_the_step_before():
    learner, task = begun("simple_cnn", prune=0.001, budget=0.8, anneal=0.5)
    learner.train()
    learner.epochs, learner.steps = 2, 101
    gate = learner.gated["conv1"].gate(0)
    for step in (0, 100):  # a look is due at both; a budget is held at 101
        learner.epoch, learner.step, learner.progress = step // 101, step, step / 202
        learner(Batch(task.train.x[:4], task.train.y[:4], task.train.task[:4]))
    assert gate.images == 8
    assert not learner.budget.held
    learner.epoch, learner.step, learner.progress = 1, 101, 101 / 202
    learner(Batch(task.train.x[:4], task.train.y[:4], task.train.task[:4]))
    assert learner.budget.held
    assert gate.images == 4
