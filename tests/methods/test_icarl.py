"""iCaRL: loss, exemplars and nearest mean, each against a plain loop."""

from __future__ import annotations

import math

import pytest
import torch

from lockgate.memory.herding import herding
from lockgate.methods.icarl import binary_cross_entropy
from lockgate.methods.protocols import memory_use
from lockgate.types import Batch


def through(learner, scenario, tasks, train):
    """Learn ``tasks`` whole tasks; returns what each of them trained on."""
    data = []
    for task in scenario.tasks[:tasks]:
        data.append(learner.begin_task(task))
        train(learner, task)
        learner.eval()
        learner.end_task(task)
    return data


def classes_held(learner):
    """Images kept of each class, in their order, as bytes."""
    found: dict[tuple[int, int], list[bytes]] = {}
    memory = learner.memory
    for x, y, task in zip(memory.x, memory.y.tolist(), memory.task.tolist(), strict=True):
        found.setdefault((task, y), []).append(x.numpy().tobytes())
    return found


def phi(learner, x):
    """Normalised features of one image (C, H, W), as a list."""
    features = learner.backbone(learner.input(x[None]), 0).features[0].tolist()
    length = math.sqrt(sum(f * f for f in features)) or 1.0
    return [f / length for f in features]


# -- the loss ----------------------------------------------------------------------------------------------------------


def sigmoid(logit):
    return 1 / (1 + math.exp(-logit))


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18"])
def test_the_loss_is_the_papers_for_new_images_and_exemplars_alike(world, train, backbone):
    learner, scenario = world("icarl", backbone, buffer=12)
    through(learner, scenario, 1, train)
    learner.eval()
    second = scenario.tasks[1]
    data_x = torch.cat([second.train.x[::9], learner.memory.x])
    with torch.no_grad():
        q = [[sigmoid(v) for v in learner.logits(x[None], 0)[0].tolist()] for x in data_x]
    data = learner.begin_task(second)
    train(learner, second)  # the old network must not follow
    learner.eval()  # so that images do not depend on each other through BatchNorm
    batch = Batch(
        data_x,
        torch.cat([second.train.y[::9], learner.memory.y]),
        torch.cat([second.train.task[::9], learner.memory.task]),
    )
    assert set(batch.task.tolist()) == {0, 1}
    new = old = 0.0
    for i, (x, y, task) in enumerate(zip(*batch, strict=True)):
        g = [sigmoid(v) for t in range(2) for v in learner.logits(x[None], t)[0].tolist()]
        for c in range(2):
            old -= q[i][c] * math.log(g[c]) + (1 - q[i][c]) * math.log(1 - g[c])
        for c in (2, 3):
            new -= math.log(g[c]) if 2 * int(task) + int(y) == c else math.log(1 - g[c])
    losses = learner.loss(batch)
    assert list(losses) == ["class", "distillation"]
    assert losses["class"].item() == pytest.approx(new / len(data_x), rel=1e-4)
    assert losses["distillation"].item() == pytest.approx(old / len(data_x), rel=1e-4)
    assert len(data) == len(second.train) + len(learner.memory.y)


def test_the_first_task_has_nothing_to_distil(world):
    learner, scenario = world("icarl")
    task = scenario.tasks[0]
    learner.begin_task(task)
    losses = learner.loss(task.train.batch(slice(0, 5)))
    assert list(losses) == ["class"]
    truth = 0.0
    for x, y, _ in zip(*task.train.batch(slice(0, 5)), strict=True):
        for c, logit in enumerate(learner.logits(x[None], 0)[0].tolist()):
            truth -= math.log(sigmoid(logit) if c == int(y) else 1 - sigmoid(logit)) / 5
    assert losses["class"].item() == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18"])
def test_the_old_network_is_the_one_before_the_task_and_never_trains(world, train, backbone):
    learner, scenario = world("icarl", backbone, buffer=12)
    second = scenario.tasks[1]
    through(learner, scenario, 1, train)
    with torch.no_grad():
        before = learner.eval().logits(second.test.x, 0).sigmoid()
    learner.begin_task(second)
    assert any(name.startswith("teacher.") for name in learner.state_dict())
    learner.train()
    assert torch.equal(learner.old_outputs(learner.teacher, second.test.x), before)
    train(learner, second)
    learner.train()
    assert torch.equal(learner.old_outputs(learner.teacher, second.test.x), before)
    assert not torch.equal(learner.eval().logits(second.test.x, 0).sigmoid(), before)
    learner.end_task(second)
    assert not any(name.startswith("teacher.") for name in learner.state_dict())


def test_a_task_trains_on_its_images_and_all_exemplars(world, train):
    learner, scenario = world("icarl", buffer=12)
    through(learner, scenario, 1, train)
    kept = [image for images in classes_held(learner).values() for image in images]
    data = learner.begin_task(scenario.tasks[1])
    assert sorted(x.numpy().tobytes() for x in data.x) == sorted(
        kept + [x.numpy().tobytes() for x in scenario.tasks[1].train.x]
    )


@pytest.mark.parametrize("buffer", [13, 1000])
def test_the_sizes_announced_are_those_trained_on_up_to_whole_exemplars(world, buffer):
    learner, scenario = world("icarl", buffer=buffer)
    announced = learner.stage_steps([len(task.train) for task in scenario.tasks], lambda images: images)
    for task, size in zip(scenario.tasks, announced, strict=True):
        assert 0 <= size - len(learner.begin_task(task)) < 2 * len(scenario.tasks)
        learner.end_task(task)


# -- exemplars ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["herding", "random"])
@pytest.mark.parametrize("buffer", [6, 11, 40, 1000])
def test_the_buffer_is_never_exceeded_and_classes_shrink_to_their_first(world, train, selection, buffer):
    learner, scenario = world("icarl", buffer=buffer, selection=selection)
    before: dict[tuple[int, int], list[bytes]] = {}
    for t, task in enumerate(scenario.tasks):
        learner.begin_task(task)
        train(learner, task, count=1)
        learner.end_task(task)
        held = classes_held(learner)
        each = buffer // (2 * (t + 1))
        assert memory_use(learner) == {
            "images": sum(map(len, held.values())),
            "bytes": sum(map(len, held.values())) * task.train.x[0].numel(),
        }
        assert memory_use(learner)["images"] <= buffer
        assert len(held) == 2 * (t + 1)
        for (owner, y), images in held.items():
            source = scenario.tasks[owner].train
            own = [x.numpy().tobytes() for x in source.x[source.y == y]]
            assert len(images) == min(each, len(own))
            assert set(images) <= set(own)
            if owner < t:
                assert images == before[owner, y][:each]
        before = held


def test_exemplars_are_herded_on_the_normalised_features_of_their_class(world, train):
    learner, scenario = world("icarl", buffer=10)
    task = scenario.tasks[0]
    through(learner, scenario, 1, train)
    held = classes_held(learner)
    for y in range(2):
        images = task.train.x[task.train.y == y]
        features = torch.tensor([phi(learner, x) for x in images])
        assert held[0, y] == [images[i].numpy().tobytes() for i in herding(features, 5)]


def test_random_exemplars_are_others_and_the_seed_chooses_them(world):
    def kept(seed):
        learner, scenario = world("icarl", buffer=10, selection="random")
        learner.begin_task(scenario.tasks[0])
        torch.manual_seed(seed)
        learner.end_task(scenario.tasks[0])
        return classes_held(learner)

    assert kept(0) == kept(0)
    assert kept(0) != kept(1)


# -- the nearest mean --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18", "mlp"])
def test_answers_are_the_nearest_mean_of_exemplars(world, train, backbone):
    learner, scenario = world("icarl", backbone, buffer=13)
    through(learner, scenario, 2, train)
    memory = learner.memory
    means = []
    for t in range(2):
        for y in range(2):
            rows = [phi(learner, x) for x in memory.x[(memory.task == t) & (memory.y == y)]]
            mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
            length = math.sqrt(sum(m * m for m in mean))
            means.append([m / length for m in mean])
    torch.testing.assert_close(learner.means, torch.tensor(means), atol=1e-5, rtol=1e-4)
    x = torch.cat([task.test.x for task in scenario.tasks])
    truth = torch.tensor(
        [[-sum((a - b) ** 2 for a, b in zip(phi(learner, i), mean, strict=True)) for mean in means] for i in x]
    )
    with torch.no_grad():
        torch.testing.assert_close(learner.predict(x, None), truth, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(learner.predict(x, 0), truth[:, :2], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(learner.predict(x, 1), truth[:, 2:], atol=1e-5, rtol=1e-4)
        answers = learner.answers(x)
        assert torch.equal(answers[learner.inference], learner.predict(x, None))
        assert torch.equal(answers["outputs"], torch.cat([learner.logits(x, t) for t in (0, 1)], dim=1))


def test_inside_a_task_the_networks_outputs_answer(world, train):
    learner, scenario = world("icarl", buffer=12)
    through(learner, scenario, 1, train)
    second = scenario.tasks[1]
    learner.begin_task(second)
    learner.eval()
    assert torch.equal(learner.predict(second.val.x, 1), learner.logits(second.val.x, 1))
    assert learner.predict(second.val.x, None).shape == (len(second.val), 4)
    assert all(torch.isfinite(value) for value in learner.loss(second.val.batch(slice(None))).values())


def test_a_buffer_too_small_for_every_class_says_so_and_still_answers(world, train):
    learner, scenario = world("icarl", buffer=3)
    through(learner, scenario, 1, train)
    assert not learner.report().warnings
    assert memory_use(learner)["images"] == 2
    learner.begin_task(scenario.tasks[1])
    learner.end_task(scenario.tasks[1])
    assert memory_use(learner) == {"images": 0, "bytes": 0}
    assert "options.buffer 4" in learner.report().warnings[0]
    x = scenario.tasks[0].test.x
    assert torch.equal(learner.predict(x, None), learner.all_logits(x))
    assert len(learner.begin_task(scenario.tasks[2])) == len(scenario.tasks[2].train)


def test_means_and_exemplars_survive_a_checkpoint(world, train):
    learner, scenario = world("icarl", "resnet18", buffer=12)
    through(learner, scenario, 2, train)
    fresh = world("icarl", "resnet18", buffer=12)[0]
    fresh.rebuild(learner.structure())
    fresh.load_state_dict(learner.state_dict())
    x = scenario.tasks[0].test.x
    learner.eval()
    fresh.eval()
    assert torch.equal(learner.predict(x, None), fresh.predict(x, None))
    assert classes_held(learner) == classes_held(fresh)
    third = scenario.tasks[2]
    torch.manual_seed(1)
    learner.begin_task(third)
    torch.manual_seed(1)
    fresh.begin_task(third)
    ours, theirs = (one.eval().loss(third.val.batch(slice(None))) for one in (learner, fresh))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_what_the_old_network_says_is_not_rounded_to_bfloat16(world):
    """There, everything above 0.998 would be 1, and the pull on a class that the network is sure of never zero."""
    learner, scenario = world("icarl")
    learner.begin_task(scenario.tasks[0])
    learner.end_task(scenario.tasks[0])
    learner.begin_task(scenario.tasks[1])
    with torch.no_grad():
        learner.teacher.heads[0].weight.zero_()
        learner.teacher.heads[0].bias.fill_(7.0)
    x = scenario.tasks[1].train.x[:4]
    with torch.autocast("cpu", torch.bfloat16):
        q = learner.old_outputs(learner.teacher, x)
        loss = binary_cross_entropy(torch.full_like(q, 7.0).bfloat16(), q)
    assert torch.allclose(q, torch.tensor(7.0).sigmoid().expand_as(q), rtol=1e-6)
    p = 1 / (1 + math.exp(-7.0))
    assert loss.item() == pytest.approx(-q.shape[1] * (p * math.log(p) + (1 - p) * math.log(1 - p)), rel=1e-4)
