"""The gated method on a tiny real scenario: objective, relevance, lock, seal, growth, and what it says of itself."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockgate.layers.gate import ChannelGate
from lockgate.layers.lock import FREE
from lockgate.methods.ccgn.consolidation import relevance
from lockgate.training.phase import EVAL_BATCH
from lockgate.types import Batch, Examples, Task


def batch_of(examples, n=8):
    return examples.batch(slice(0, n))


@torch.no_grad()
def shares_by_loop(learner, x, task):
    """For each layer and gate, the share of images it fires for, one image at a time; and the least |logit|."""
    learner.eval()
    fires, margin = [[0] * layer.width for layer in learner.gated.values()], [float("inf")]
    hooks = [
        layer.gate(task).excite.register_forward_hook(
            lambda _, __, z: margin.__setitem__(0, min(margin[0], float(z.abs().min())))
        )
        for layer in learner.gated.values()
    ]
    for image in x:
        for index, gate in enumerate(learner.backbone(learner.input(image[None]), task).gates):
            for k, value in enumerate(gate[0].tolist()):
                fires[index][k] += value == 1
    for hook in hooks:
        hook.remove()
    return [[count / len(x) for count in layer] for layer in fires], margin[0]


@torch.no_grad()
def answers(learner, tasks):
    learner.eval()
    return [learner.predict(task.test.x, task.id) for task in tasks]


def finish(learner, task, stir, train):
    learner.begin_task(task)
    stir(learner, task.id)
    train(learner, task)
    learner.end_task(task)


# -- objective ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18", "mlp"])
def test_the_sparsity_loss_is_equation_5(world, stir, backbone):
    learner, scenario = world(backbone=backbone, sparsity=0.7, sparsity_warmup=0)
    learner.begin_task(scenario.tasks[0])
    stir(learner, 0)
    learner.eval()
    batch = batch_of(scenario.tasks[0].train)
    gates = learner.backbone(learner.input(batch.x), 0).gates
    total = 0.0
    for gate in gates:
        for image in gate.tolist():
            total += sum(image) / len(image) / len(batch.y)
    assert 0 < total < len(gates)
    assert learner.loss(batch)["sparsity"].item() == pytest.approx(0.7 / len(gates) * total, rel=1e-5)


def test_the_class_loss_is_the_cross_entropy_of_the_current_head(world):
    learner, scenario = world()
    for task in scenario.tasks[:2]:
        learner.begin_task(task)
    learner.eval()
    batch = batch_of(scenario.tasks[1].train)
    features = learner.backbone(learner.input(batch.x), 1).features
    truth = [-F.log_softmax(learner.heads[1](f), 0)[y] for f, y in zip(features, batch.y.tolist(), strict=True)]
    assert learner.loss(batch)["class"].item() == pytest.approx(sum(truth).item() / len(truth), rel=1e-5)


@pytest.mark.parametrize(("warmup", "epochs"), [(0, 0), (1, 1), (3, 3), ("loss", 1)])
def test_there_is_no_sparsity_before_the_warmup_is_over(world, warmup, epochs):
    learner, scenario = world(sparsity_warmup=warmup)
    learner.begin_task(scenario.tasks[0])
    learner.warmup.learnt.fill_(True)
    for epoch in range(5):
        learner.epoch = epoch
        assert ("sparsity" in learner.loss(batch_of(scenario.tasks[0].train))) == (epoch >= epochs)
    assert learner.first_selectable_epoch == epochs


@pytest.mark.parametrize("warmup", [0, "loss"])
def test_while_nothing_is_learnt_gates_have_no_noise_and_no_price_where_the_loss_decides(world, warmup):
    learner, scenario = world(sparsity_warmup=warmup, open_bias=0.0)
    learner.begin_task(scenario.tasks[0])
    learner.epoch = 4
    batch, gates = batch_of(scenario.tasks[0].train), [layer.gate(0) for layer in learner.gated.values()]
    waits = warmup == "loss"
    for _ in range(3):
        assert ("sparsity" in learner.train().loss(batch)) != waits
        assert {gate.noisy for gate in gates} == {not waits}
    learner.warmup.begin_task()
    with torch.no_grad():  # now it answers with certainty, and right
        learner.heads[0].weight.zero_()
        learner.heads[0].bias.copy_(torch.tensor([9.0, -9.0]))
    sure, steps = batch._replace(y=torch.zeros_like(batch.y)), 0
    while learner.warmup.quiet and steps < 100:
        learner.loss(sure)
        steps += 1
    assert steps == (18 if waits else 0)  # 1 - 0.98 ** 18 is the first above 0.3
    assert "sparsity" in learner.loss(sure)
    assert all(gate.noisy for gate in gates)
    learner.begin_task(scenario.tasks[1])
    assert learner.warmup.quiet == waits


def test_sparsity_that_warms_up_by_the_loss_weighs_what_was_learnt(world):
    """1 - class loss / log(classes), not below zero, without a gradient of its own; evaluation is as Eq. 5 has it."""
    for bias, right in (((0.0, 0.0), 0.0), ((9.0, -9.0), 1.0), ((-9.0, 9.0), 0.0), ((0.5, 0.0), None)):
        parts, shut = [], []
        for warmup in (0, "loss"):
            learner, scenario = world(sparsity_warmup=warmup)
            learner.begin_task(scenario.tasks[0])
            learner.warmup.learnt.fill_(True)
            learner.epoch = 1
            x, y, task = batch_of(scenario.tasks[0].train)
            with torch.no_grad():
                learner.heads[0].weight.zero_()
                learner.heads[0].bias.copy_(torch.tensor(bias))
            torch.manual_seed(1)  # the same gate noise
            parts.append(learner.train().loss(Batch(x, torch.zeros_like(y), task)))
            shut.append(learner.eval().loss(Batch(x, torch.zeros_like(y), task))["sparsity"])
        share = max(0.0, 1 - parts[1]["class"].item() / math.log(2))
        assert right is None or share == pytest.approx(right, abs=1e-3)
        torch.testing.assert_close(parts[1]["sparsity"], share * parts[0]["sparsity"])
        torch.testing.assert_close(shut[0], shut[1])
        (gradient,) = torch.autograd.grad(parts[1]["sparsity"], learner.heads[0].bias, allow_unused=True)
        assert gradient is None


def test_sparsity_pushes_every_gate_towards_shut(world):
    learner, scenario = world(sparsity_warmup=0)
    learner.begin_task(scenario.tasks[0])
    learner.train()
    learner.loss(batch_of(scenario.tasks[0].train))["sparsity"].backward()
    for layer in learner.gated.values():
        assert (layer.gate(0).excite.bias.grad > 0).all()


# -- relevance, lock, re-initialise, seal ------------------------------------------------------------------------------


def test_relevance_counts_images_and_does_not_average_batches(world, stir):
    learner, _ = world(width=4)
    learner.add_task(2)
    stir(learner, 0)
    torch.manual_seed(3)
    x = torch.randint(0, 256, (EVAL_BATCH + 9, 3, 8, 8), dtype=torch.uint8)
    x[EVAL_BATCH:] //= 64  # the short last batch is unlike the others
    truth, margin = shares_by_loop(learner, x, 0)
    assert margin > 1e-5  # no decision hangs on rounding
    firing = relevance(learner, x, 0)
    assert [row.tolist() for row in firing] == truth
    parts = [relevance(learner, part, 0) for part in torch.split(x, EVAL_BATCH)]
    assert any(not torch.allclose((a + b) / 2, c, atol=0.05) for a, b, c in zip(*parts, firing, strict=True))


@pytest.mark.parametrize("training", [True, False])
def test_counting_gates_leaves_the_mode_and_the_statistics_alone(world, training):
    learner, scenario = world(backbone="resnet18", width=4)
    learner.begin_task(scenario.tasks[0])
    learner.train(training)
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    assert torch.equal(
        relevance(learner, scenario.tasks[0].val.x, 0)[0], relevance(learner, scenario.tasks[0].val.x, 0)[0]
    )
    assert learner.training is training
    assert all(torch.equal(value, before[name]) for name, value in learner.state_dict().items())


def test_the_end_of_a_task_locks_what_fires_and_starts_the_rest_anew(world, stir, train):
    learner, scenario = world(width=12)
    task = scenario.tasks[0]
    learner.begin_task(task)
    stir(learner, 0)
    train(learner, task)
    shares, margin = shares_by_loop(learner, task.val.x, 0)
    assert margin > 1e-6
    before = {
        name: (layer.weight.detach().clone(), layer.bias.detach().clone()) for name, layer in learner.gated.items()
    }
    learner.end_task(task)
    kinds = set()
    for share, (name, layer), entry in zip(shares, learner.gated.items(), learner.report().capacity, strict=True):
        relevant = [s > 0 for s in share]
        kinds |= set(relevant)
        assert layer.owner.tolist() == [0 if r else FREE for r in relevant]
        assert layer.gate(0).seal.tolist() == relevant
        assert (entry.layer, entry.width, entry.used, entry.relevant) == (name, 12, sum(relevant), sum(relevant))
        assert entry.to_dict()["free"] == 12 - sum(relevant)
        for k, kept in enumerate(relevant):
            assert torch.equal(layer.weight[k], before[name][0][k]) == kept
            assert torch.equal(layer.bias[k], before[name][1][k]) == kept
    assert kinds == {True, False}
    assert not any(p.requires_grad for p in learner.parameters())


def test_a_second_task_locks_only_what_is_free_and_reports_reuse(world, stir, train):
    learner, scenario = world(width=12)
    for task in scenario.tasks[:2]:
        finish(learner, task, stir, train)
    relevant = [layer.gate(1).seal for layer in learner.gated.values()]
    for layer, mine, entry in zip(learner.gated.values(), relevant, learner.report().capacity, strict=True):
        first = layer.gate(0).seal
        owner = [0 if a else 1 if b else FREE for a, b in zip(first.tolist(), mine.tolist(), strict=True)]
        assert layer.owner.tolist() == owner
        assert entry.used == int((first | mine).sum())
        assert entry.relevant == int(mine.sum())


def test_sealed_gates_fire_on_no_image_outside_their_relevant_set(world, stir, train):
    open_elsewhere = {}
    for seal in (True, False):
        learner, scenario = world(width=12, seal=seal)
        task = scenario.tasks[0]
        finish(learner, task, stir, train)
        torch.manual_seed(0)
        strange = torch.randint(0, 2, (200, 3, 16, 16), dtype=torch.uint8) * 255
        open_elsewhere[seal] = sum(
            int((row > 0)[~layer.locked].sum())
            for row, layer in zip(relevance(learner, strange, 0), learner.gated.values(), strict=True)
        )
    assert open_elsewhere[True] == 0
    assert open_elsewhere[False] > 0  # the paper as printed


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18", "mlp"])
@pytest.mark.parametrize("grow", [0.0, 0.6])
def test_past_answers_keep_every_bit(world, stir, train, backbone, grow):
    learner, scenario = world(backbone=backbone, width=8, grow=grow)
    promised = []
    for task in scenario.tasks:
        finish(learner, task, stir, train)
        promised.append(answers(learner, [task])[0])
        assert all(map(torch.equal, answers(learner, scenario.tasks[: task.id + 1]), promised))
    grown = learner.structure()[2]["widths"] != learner.structure()[0]["widths"]
    assert grown == (grow > 0)


@settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    make=st.sampled_from(
        [
            lambda g: torch.optim.SGD(g, momentum=0.9, nesterov=True, weight_decay=0.1),
            lambda g: torch.optim.AdamW(g, weight_decay=0.5),
            lambda g: torch.optim.Adam(g, amsgrad=True, weight_decay=0.1),
            lambda g: torch.optim.RMSprop(g, momentum=0.9),
        ]
    ),
    lr=st.floats(1e-3, 0.3),
    clip=st.sampled_from([0.01, 1.0, 1e9]),
)
def test_past_answers_keep_every_bit_under_any_optimiser(world, stir, train, make, lr, clip):
    learner, scenario = world(tasks=2)
    finish(learner, scenario.tasks[0], stir, train)
    before = answers(learner, scenario.tasks[:1])[0]
    learner.begin_task(scenario.tasks[1])
    weights = [layer.weight.detach().clone() for layer in learner.gated.values()]
    train(learner, scenario.tasks[1], make(learner.parameter_groups(lr)), clip=clip)
    assert torch.equal(answers(learner, scenario.tasks[:1])[0], before)
    assert any(not torch.equal(w, layer.weight) for w, layer in zip(weights, learner.gated.values(), strict=True))


def test_without_the_lock_past_answers_change(world, stir, train):
    learner, scenario = world(tasks=2)
    finish(learner, scenario.tasks[0], stir, train)
    before = answers(learner, scenario.tasks[:1])[0]
    for layer in learner.gated.values():
        layer.owner.fill_(FREE)
        layer.load_state_dict(layer.state_dict())  # forget what was locked
    learner.begin_task(scenario.tasks[1])
    train(learner, scenario.tasks[1])
    assert not torch.equal(answers(learner, scenario.tasks[:1])[0], before)


# -- what trains, and what is kept -------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1.0, 3.0, 20.0])
def test_gates_learn_at_their_own_rate_and_every_trainable_parameter_once(world, stir, train, factor):
    learner, scenario = world(backbone="resnet18", width=4, gate_lr=factor)
    finish(learner, scenario.tasks[0], stir, train)
    learner.begin_task(scenario.tasks[1])
    rate = {id(p): group["lr"] for group in learner.parameter_groups(0.01) for p in group["params"]}
    counted = sum(len(group["params"]) for group in learner.parameter_groups(0.01))
    wanted = {}
    for name, p in learner.named_parameters():
        past = ".gates.0." in name or ".norms.0." in name or name.startswith("heads.0.")
        if not past:
            wanted[id(p)] = 0.01 * factor if ".gates.1." in name else 0.01
    assert counted == len(rate)
    assert rate == pytest.approx(wanted)
    assert any(".gates.1." in name for name, _ in learner.named_parameters())


def test_what_is_kept_of_a_task_is_its_filters_gates_norms_and_head(world, stir, train):
    learner, scenario = world(backbone="resnet18", width=4, tasks=2)
    finish(learner, scenario.tasks[0], stir, train)
    kept = learner.promised(0)
    for name, layer in learner.gated.items():
        assert torch.equal(kept[f"{name}.weight"], layer.weight[layer.owner == 0])
    state = learner.state_dict()
    per_task = {k for k in state if ".gates.0." in k or ".norms.0." in k or k.startswith("heads.0.")}
    assert per_task == set(kept) - {f"{name}.weight" for name in learner.gated}
    assert all(torch.equal(kept[key], state[key]) for key in per_task)


def test_a_rebuilt_learner_answers_with_the_same_bits(world, stir, train):
    learner, scenario = world(grow=0.6)
    for task in scenario.tasks[:2]:
        finish(learner, task, stir, train)
    other, _ = world(grow=0.6)
    other.rebuild(learner.structure())
    other.load_state_dict(learner.state_dict())
    assert all(map(torch.equal, answers(other, scenario.tasks[:2]), answers(learner, scenario.tasks[:2])))
    finish(other, scenario.tasks[2], stir, train)
    finish(learner, scenario.tasks[2], stir, train)
    assert other.structure() == learner.structure()


# -- warnings ----------------------------------------------------------------------------------------------------------


def force(learner, layer, bias):
    gate = learner.gated[layer].gate(0)
    with torch.no_grad():
        gate.excite.weight.zero_()
        gate.excite.bias.copy_(bias)


@pytest.mark.parametrize(("used", "warned"), [(8, False), (9, False), (10, True)])
def test_a_nearly_full_layer_warns(world, used, warned):
    learner, scenario = world(width=10)
    learner.begin_task(scenario.tasks[0])
    for layer in learner.gated:
        force(learner, layer, torch.where(torch.arange(10) < 5, 9.0, -9.0))
    force(learner, "conv2", torch.where(torch.arange(10) < used, 9.0, -9.0))
    learner.end_task(scenario.tasks[0])
    notes = learner.report().warnings
    assert len(notes) == warned
    for note in notes:
        assert "conv2 0/10" in note
        assert not {"conv1", "conv3"} & set(note.split())
        assert "`sparsity`" in note
        assert "`grow`" in note


def test_a_full_layer_that_will_grow_does_not_warn(world):
    learner, scenario = world(width=10, grow=0.3)
    learner.begin_task(scenario.tasks[0])
    for layer in learner.gated:
        force(learner, layer, torch.full((10,), 9.0))
    learner.end_task(scenario.tasks[0])
    assert learner.report().warnings == []


def test_a_layer_whose_gates_are_all_shut_warns(world):
    learner, scenario = world(width=10)
    learner.begin_task(scenario.tasks[0])
    for layer in learner.gated:
        force(learner, layer, torch.where(torch.arange(10) < 5, 9.0, -9.0))
    force(learner, "conv3", torch.full((10,), -9.0))
    learner.end_task(scenario.tasks[0])
    (note,) = learner.report().warnings
    assert "no gate fires in conv3" in note
    assert "conv1" not in note
    assert not learner.gated["conv3"].locked.any()


def test_the_method_says_that_it_needs_the_task(world):
    learner, _ = world()
    assert not learner.class_incremental
    assert not any(isinstance(m, ChannelGate) for m in learner.modules())  # gates come with tasks


def test_a_single_held_out_image_is_enough(world):
    learner, scenario = world()
    whole = scenario.tasks[0]
    one = Examples(whole.val.x[:1], whole.val.y[:1], whole.val.task[:1])
    task = Task(0, whole.classes, whole.train, one, whole.test)
    learner.begin_task(task)
    gates = learner.eval().backbone(learner.input(one.x), 0).gates
    learner.end_task(task)
    assert [layer.locked.tolist() for layer in learner.gated.values()] == [(gate[0] == 1).tolist() for gate in gates]


def test_a_training_batch_of_one_is_accepted(world):
    learner, scenario = world()
    learner.begin_task(scenario.tasks[0])
    learner.train()
    losses = learner(Batch(*(part[:1] for part in batch_of(scenario.tasks[0].train))))
    assert all(torch.isfinite(value) for value in losses.values())
