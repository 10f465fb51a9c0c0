"""HAT on a tiny real scenario: annealing, regulariser, what freezes, and past answers that keep every bit."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from tests.support import tiny

from lockgate.evaluation.exactness import audit, logits, promise
from lockgate.evaluation.macs import task_macs
from lockgate.runs.build import build_learner, build_scenario
from lockgate.runs.task_phase import task_phase
from lockgate.testing import walk
from lockgate.training.device import make_fabric
from lockgate.training.loop import Fit, FitState
from lockgate.training.progress import Progress

BACKBONES = ("simple_cnn", "resnet18", "mlp")
OPTIMISERS = {
    "sgd": lambda groups: torch.optim.SGD(groups, momentum=0.9, weight_decay=0.1),
    "adamw": lambda groups: torch.optim.AdamW(groups, weight_decay=0.1),
}
FIVE = {"tasks": 5, "epochs": 3, "data": {"synthetic_classes": 10, "synthetic_per_class": 12}}
# Where each layer of the tiny networks reads from, in words of its own; None: the image.
SOURCES = {
    "simple_cnn": {"conv1": None, "conv2": "conv1", "conv3": "conv2"},
    "mlp": {"fc1": None, "fc2": "fc1"},
    "resnet18": {
        "stem": None,
        "stage1.block1.conv1": "stem",
        "stage1.block1.conv2": "stage1.block1.conv1",
        "stage2.block1.conv1": "stage1.block1.conv2",
        "stage2.block1.shortcut": "stage1.block1.conv2",
        "stage2.block1.conv2": "stage2.block1.conv1",
    },
}


def used_after(learner, tasks):
    """For each layer the units that the masks of the first ``tasks`` tasks hold, from the embeddings alone."""
    return {
        name: [any(layer.embeddings[t].tolist()[i] > 0 for t in range(tasks)) for i in range(layer.width)]
        for name, layer in learner.masked.items()
    }


def test_s_goes_from_one_over_s_max_to_s_max(world):
    learner, _ = world("hat")
    learner.steps = 101
    for step, s in ((0, 0.0025), (50, 200.00125), (100, 400.0), (101, 0.0025)):
        learner.step = step
        assert learner.scale == pytest.approx(s, rel=1e-9)
    other, _ = world("hat", s_max=50.0)
    other.steps, other.step = 5, 1
    assert other.scale == pytest.approx(0.02 + (50 - 0.02) / 4)


@pytest.mark.parametrize(("batch", "expected"), [(8, [0.0025, 133.335, 266.6675, 400.0]), (36, [400.0])])
def test_the_engine_anneals_within_each_epoch(batch, expected):
    experiment = tiny.experiment("hat", epochs=2, optim={"batch_size": batch})
    scenario = build_scenario(experiment)
    task = scenario.tasks[0]
    assert len(task.train) == 36, "the steps below are of 36 images"
    learner = build_learner(experiment, scenario.image_shape)
    data = learner.begin_task(task)
    seen: list[float] = []
    learner.register_forward_hook(lambda module, *_: seen.append(module.masked["conv2"].scale))
    phase = task_phase(learner, task, data, experiment)
    fit = Fit(make_fabric(experiment), phase, experiment, FitState(), lambda _: None, Progress(1, 0, quiet=True))
    fit.run(lambda _: None)
    assert seen == pytest.approx(expected * 2, rel=1e-5)


def test_weights_step_by_their_own_gradient_however_large_the_compensated_one_is():
    """Plain SGD with clipping on: the step of the weights is the gradient, clipped by the norm it has uncompensated."""
    optim = {"optimiser": "sgd", "momentum": 0.0, "weight_decay": 0.0, "lr": 0.1, "schedule": "constant", "clip": 1e-3}
    experiment = tiny.experiment("hat", epochs=1, optim={**optim, "batch_size": 36})
    scenario = build_scenario(experiment)
    learner = build_learner(experiment, scenario.image_shape)
    data = learner.begin_task(scenario.tasks[0])
    before = {name: p.detach().clone() for name, p in learner.named_parameters()}
    phase = task_phase(learner, scenario.tasks[0], data, experiment)
    fit = Fit(make_fabric(experiment), phase, experiment, FitState(), lambda _: None, Progress(1, 0, quiet=True))
    learner.train()
    learner.steps, learner.step = 2, 0  # s is 1 / 400: compensation makes embeddings' gradients 160,000 times larger
    fit.train_step(data.batch(slice(None)))
    moved = {name: ((p.detach() - before[name]) / 0.1).norm() for name, p in learner.named_parameters()}
    weights = torch.stack([size for name, size in moved.items() if "embeddings" not in name]).norm()
    assert 0.9e-3 < weights <= 1.01e-3, "next to all of the clipped norm is the weights'"
    assert max(float(size) for name, size in moved.items() if "embeddings" in name) > 0


@pytest.mark.parametrize(("steps", "step", "factor"), [(401, 1, 1.0), (401, 3, 1.0), (2, 0, 1.0), (401, 1, 7.0)])
def test_embeddings_step_by_the_compensated_gradient_worked_by_hand(steps, step, factor):
    """Plain SGD in the engine: gradient, clipped with the weights', times s_max [cosh(s e) + 1] / (s [cosh(e) + 1])."""
    lr, clip = 1e-6, 0.05
    optim = {"optimiser": "sgd", "momentum": 0.0, "weight_decay": 0.0, "lr": lr, "schedule": "constant", "clip": clip}
    experiment = tiny.experiment("hat", epochs=1, optim=optim, options={"embedding_lr": factor})
    scenario = build_scenario(experiment)
    learner = build_learner(experiment, scenario.image_shape).double()
    data = learner.begin_task(scenario.tasks[0])
    learner.double().train()
    learner.steps, learner.step = steps, step
    batch = data.batch(slice(None))
    trained = {name: p for name, p in learner.named_parameters() if p.requires_grad}
    before = {name: p.detach().clone() for name, p in trained.items()}
    gradients = dict(
        zip(trained, torch.autograd.grad(sum(learner.loss(batch).values()), trained.values()), strict=True)
    )
    clipped = clip / math.sqrt(sum(float(g.square().sum()) for g in gradients.values()))
    assert clipped < 1, "clipping has something to do"
    fit = Fit(
        make_fabric(experiment),
        task_phase(learner, scenario.tasks[0], data, experiment),
        experiment,
        FitState(),
        lambda _: None,
        Progress(1, 0, quiet=True),
    )
    fit.train_step(batch)
    s = 1 / 400 + (400 - 1 / 400) * step / (steps - 1)
    embeddings = [name for name in trained if "embeddings" in name]
    assert len(embeddings) == 3
    for name in embeddings:
        for e, g, now in zip(before[name].tolist(), gradients[name].tolist(), trained[name].tolist(), strict=True):
            wanted = clipped * g * 400 * (math.cosh(s * e) + 1) / (s * (math.cosh(e) + 1))
            assert (e - now) / lr / factor == pytest.approx(wanted, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("training", [True, False])
def test_the_regulariser_is_the_share_of_free_units_taken(world, training):
    learner, scenario = world("hat")
    for task in scenario.tasks[:2]:
        learner.begin_task(task)
        learner.end_task(task)
    learner.begin_task(scenario.tasks[2])
    learner.train(training)
    learner.steps, learner.step = 101, 1
    batch = scenario.tasks[2].train.batch(slice(4))
    losses = learner.loss(batch)
    s = 1 / 400 + (400 - 1 / 400) * 0.01
    used = used_after(learner, 2)
    taken, free = 0.0, 0
    for name, layer in learner.masked.items():
        for i in range(layer.width):
            if not used[name][i]:
                e = layer.embeddings[2].tolist()[i]
                taken += 1 / (1 + math.exp(-s * e)) if training else float(e > 0)
                free += 1
    assert 0 < free < sum(layer.width for layer in learner.masked.values())
    assert losses["sparsity"].item() == pytest.approx(0.75 * taken / free, rel=1e-5)
    assert losses["class"].item() == pytest.approx(F.cross_entropy(learner.logits(batch.x, 2), batch.y).item())


def test_with_nothing_left_the_regulariser_is_zero(world):
    learner, scenario = world("hat")
    learner.begin_task(scenario.tasks[0])
    for layer in learner.masked.values():
        layer.embeddings[0].data.fill_(1.0)
    learner.end_task(scenario.tasks[0])
    learner.begin_task(scenario.tasks[1])
    assert learner.regulariser().item() == 0.0


def test_the_first_task_pays_for_every_unit(world):
    learner, scenario = world("hat", backbone="mlp")
    learner.begin_task(scenario.tasks[0])
    learner.eval()
    masks = [e > 0 for layer in learner.masked.values() for e in layer.embeddings[0].tolist()]
    assert learner.regulariser().item() == pytest.approx(sum(masks) / len(masks))


def test_the_answer_is_that_of_the_network_cut_down_to_its_units(world):
    learner, scenario = world("hat", backbone="mlp")
    task = scenario.tasks[0]
    learner.begin_task(task)
    learner.eval()
    fc1, fc2 = learner.masked.values()
    one, two = (layer.embeddings[0] > 0 for layer in (fc1, fc2))
    h = F.relu(F.linear(learner.input(task.test.x).flatten(1), fc1.weight[one], fc1.bias[one]))
    h = F.relu(F.linear(h, fc2.weight[two][:, one], fc2.bias[two]))
    truth = F.linear(h, learner.heads[0].weight[:, two], learner.heads[0].bias)
    assert torch.allclose(learner.predict(task.test.x, 0), truth, atol=1e-5)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("optimiser", sorted(OPTIMISERS))
def test_no_weight_between_used_units_moves_and_the_others_learn(world, train, backbone, optimiser):
    learner, scenario = world("hat", backbone, width=8)
    assert list(learner.masked) == list(SOURCES[backbone])
    moved_later = 0
    before: dict[str, tuple[torch.Tensor, torch.Tensor | None]] = {}
    for task in scenario.tasks:
        learner.begin_task(task)
        learner.steps, learner.step = 101, 1
        train(learner, task, OPTIMISERS[optimiser](learner.parameter_groups(0.05)), count=4)
        used = used_after(learner, task.id)
        for name, (weight, bias) in before.items():
            layer, source = learner.masked[name], SOURCES[backbone][name]
            for i in range(layer.width):
                for j in range(weight.shape[1]):
                    if used[name][i] and (source is None or used[source][j]):
                        assert torch.equal(layer.weight[i, j], weight[i, j]), (name, i, j)
                    else:
                        moved_later += not torch.equal(layer.weight[i, j], weight[i, j])
                if bias is not None and used[name][i]:
                    assert torch.equal(layer.bias[i], bias[i])
        learner.end_task(task)
        before = {
            name: (layer.weight.detach().clone(), None if layer.bias is None else layer.bias.detach().clone())
            for name, layer in learner.masked.items()
        }
    assert moved_later, "nothing was free: the test would prove nothing"


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18-deep", "mlp"])
@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_past_logits_are_bit_equal_after_every_later_task(backbone, optimiser):
    optim = {"optimiser": optimiser, "lr": 0.05 if optimiser == "sgd" else 3e-3}
    experiment = tiny.experiment("hat", backbone, optim=optim, **FIVE)
    everything = torch.cat([task.test.x for task in build_scenario(experiment).tasks])
    first: dict[int, torch.Tensor] = {}
    promises, weights = [], []
    for learner, seen in walk(experiment):
        promises.append(promise(learner, seen))
        verdict = audit(learner, seen, promises)
        assert verdict.ok, verdict.text()
        weights.append([layer.weight.detach().clone() for layer in learner.masked.values()])
        for task in seen:
            with torch.no_grad():
                now = learner.eval().predict(everything, task.id)
            assert torch.equal(first.setdefault(task.id, now), now)
    trained_later = [not torch.equal(a, b) for a, b in zip(weights[0], weights[-1], strict=True)]
    assert any(trained_later), "nothing was free: the test would prove nothing"


def test_the_audit_sees_one_bit_of_a_used_weight_and_ignores_the_rest(world):
    learner, scenario = world("hat")
    task = scenario.tasks[0]
    learner.begin_task(task)
    for layer in learner.masked.values():
        layer.embeddings[0].data = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    learner.end_task(task)
    made = promise(learner, [task])
    before = logits(learner, task)
    conv2 = learner.masked["conv2"]
    with torch.no_grad():
        conv2.weight[1] += 1  # a unit out of use
        conv2.weight[0, 1] += 1  # a used unit's weight to an input out of use
        conv2.bias[3] += 1
    assert audit(learner, scenario.tasks, [made]).ok
    assert torch.equal(logits(learner, task), before)
    with torch.no_grad():
        conv2.weight[0, 2, 0, 0] = torch.nextafter(conv2.weight[0, 2, 0, 0], torch.tensor(math.inf))
    assert "task 0: tensor conv2.weight" in audit(learner, scenario.tasks, [made]).broken


@pytest.mark.parametrize("part", ["embedding", "norm", "head"])
def test_the_audit_sees_everything_else_that_is_kept(world, part):
    learner, scenario = world("hat", "resnet18")
    task = scenario.tasks[0]
    learner.begin_task(task)
    learner.end_task(task)
    made = promise(learner, [task])
    with torch.no_grad():
        if part == "embedding":
            learner.masked["stem"].embeddings[0][0] += 1e-3
        elif part == "norm":
            learner.backbone.stem_norm.norms[0].running_mean[0] += 1e-3
        else:
            learner.heads[0].bias[0] += 1e-3
    assert not audit(learner, scenario.tasks, [made]).ok


def test_capacity_counts_units(world):
    learner, scenario = world("hat")
    for task in scenario.tasks[:2]:
        learner.begin_task(task)
        learner.end_task(task)
        used = used_after(learner, task.id + 1)
        for entry in learner.report().capacity:
            layer = learner.masked[entry.layer]
            assert entry.width == 6
            assert entry.used == sum(used[entry.layer])
            assert entry.relevant == sum(e > 0 for e in layer.embeddings[task.id].tolist())


def test_embeddings_do_not_decay_and_only_the_newest_learn(world):
    learner, scenario = world("hat")
    for task in scenario.tasks[:2]:
        learner.begin_task(task)
    rest, embeddings = learner.parameter_groups(0.1)
    assert embeddings["weight_decay"] == 0.0
    newest = [layer.embeddings[1] for layer in learner.masked.values()]
    assert all(any(p is e for e in newest) for p in embeddings["params"])
    assert len(embeddings["params"]) == 3
    assert len(rest["params"]) == 3 * 2 + 2, "three convolutions and one head"


def test_macs_count_open_units(world):
    """The counter takes the mask as a gate: inputs in the mask times outputs in the mask."""
    learner, scenario = world("hat", backbone="mlp")
    learner.begin_task(scenario.tasks[0])
    one, two = (int((layer.embeddings[0] > 0).sum()) for layer in learner.masked.values())
    x = scenario.tasks[0].test.x
    assert task_macs(learner, x, 0)["open"] == pytest.approx(x[0].numel() * one + one * two)
