"""GDumb: nothing but what is stored enters, and nothing that was learnt before stays."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from tests.support import tiny

from lockgate.config import OptimConfig
from lockgate.methods.gdumb import cutmix
from lockgate.runs.run import run
from lockgate.runs.task_phase import task_phase
from lockgate.training.phase import Phase


def as_bytes(x):
    return {image.numpy().tobytes() for image in x}


def test_only_stored_images_are_trained_on(world):
    learner, scenario = world("gdumb", buffer=9, cutmix=0.0)
    for task in scenario.tasks:
        data = learner.begin_task(task)
        assert torch.equal(data.x, learner.memory.x)
        assert len(data) == 9
        phase = task_phase(learner, task, data, tiny.experiment("gdumb", augment={}))
        assert phase.data is data
        assert as_bytes(data.x) <= as_bytes(torch.cat([t.train.x for t in scenario.tasks[: task.id + 1]]))
    assert len(set(learner.memory.task.tolist())) == 3


def test_a_tasks_other_images_do_not_move_a_bit(world):
    """The same run, with every image that is not stored painted over after the sampler has chosen."""

    def learnt(painted: bool):
        learner, scenario = world("gdumb", buffer=9)
        for task in scenario.tasks[:2]:
            torch.manual_seed(task.id)
            data = learner.begin_task(task)
            kept = as_bytes(learner.memory.x)
            if painted:
                others = [i for i, image in enumerate(task.train.x) if image.numpy().tobytes() not in kept]
                assert others
                task.train.x[others] = 255 - task.train.x[others]
                task.val.x.fill_(7)
            optimiser = torch.optim.SGD(learner.parameters(), lr=0.1)
            learner.train()
            for step in range(6):
                torch.manual_seed(step)
                optimiser.zero_grad()
                learner(data.batch(slice(0, 9)))["class"].backward()
                optimiser.step()
            learner.end_task(task)
        return learner.state_dict()

    plain, painted = learnt(False), learnt(True)
    assert all(torch.equal(plain[name], painted[name]) for name in plain)


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18", "mlp"])
def test_every_task_starts_from_the_untrained_network(world, train, backbone):
    learner, scenario = world("gdumb", backbone, buffer=30)
    untrained = {name: value.clone() for name, value in learner.backbone.state_dict().items()}
    for task in scenario.tasks:
        learner.begin_task(task)
        now = learner.backbone.state_dict()
        assert all(torch.equal(now[name], value) for name, value in untrained.items())
        heads = [head.weight.clone() for head in learner.heads]
        train(learner, dataclasses.replace(task, train=learner.memory.examples))
        assert not all(torch.equal(learner.backbone.state_dict()[name], untrained[name]) for name in untrained)
        assert all(not torch.equal(head.weight, before) for head, before in zip(learner.heads, heads, strict=True))


def test_the_scale_of_the_input_is_that_of_the_stored_images(world):
    learner, scenario = world("gdumb", buffer=9)
    for task in scenario.tasks[:2]:
        learner.begin_task(task)
        values = learner.memory.x.double() / 255
        torch.testing.assert_close(learner.input.mean.flatten().double(), values.mean((0, 2, 3)), atol=1e-6, rtol=0)


def test_as_many_steps_as_the_tasks_own_images_would_take_or_as_many_passes_as_asked(world):
    learner, scenario = world("gdumb", buffer=9)
    task = scenario.tasks[0]
    data = learner.begin_task(task)
    given = Phase((0,), learner, data, 3, 1, OptimConfig(batch_size=8, selection="accuracy"))
    phase = learner.schedule(given)
    assert (phase.epochs, phase.steps) == (3, len(task.train) // 8)
    assert phase.optim.selection == "last"
    learner.options = dataclasses.replace(learner.options, passes=50)
    phase = learner.schedule(given)
    assert (phase.epochs, phase.steps) == (50, 1)
    planned = lambda count: 3 * max(1, count // 8)  # noqa: E731
    assert learner.stage_steps([4, 40, 0], planned) == [50, 50, 0]
    learner.options = dataclasses.replace(learner.options, passes=0)
    assert learner.stage_steps([4, 40, 0], planned) == [3, 15, 0]


def test_cutmix_worked_by_hand(monkeypatch):
    x = torch.arange(3).view(3, 1, 1, 1).expand(3, 1, 8, 8).to(torch.uint8).contiguous()
    torch.manual_seed(0)
    for _ in range(50):
        mixed, other, own = cutmix(x)
        for image, first, second in zip(mixed, x, x[other], strict=True):
            foreign = int((image != first).sum())
            assert foreign in (0, round(64 * (1 - own)))
            assert set(image.flatten().tolist()) <= {int(first[0, 0, 0]), int(second[0, 0, 0])}
    # side sqrt(1 - 0.75) = half: a box of 4 x 4 about the centre (1, 5), cut off at the top: rows 0..2, columns 3..6
    monkeypatch.setattr(torch, "randperm", lambda count: torch.tensor([1, 2, 0]))
    monkeypatch.setattr(torch, "rand", lambda size: torch.tensor(0.75))
    centre = iter([torch.tensor(1), torch.tensor(5)])
    monkeypatch.setattr(torch, "randint", lambda high, size: next(centre))
    mixed, other, own = cutmix(x)
    wanted = x.clone()
    wanted[:, :, 0:3, 3:7] = x[[1, 2, 0]][:, :, 0:3, 3:7]
    assert torch.equal(mixed, wanted)
    assert own == 1 - 12 / 64
    assert other.tolist() == [1, 2, 0]


def test_the_mixed_loss_weighs_both_labels_by_their_areas(world, monkeypatch):
    learner, scenario = world("gdumb", buffer=9, cutmix=1.0)
    data = learner.begin_task(scenario.tasks[0])
    batch = data.batch(slice(0, 4))
    mixed, other = batch.x.flip(3), torch.tensor([1, 0, 3, 2])
    monkeypatch.setattr("lockgate.methods.gdumb.cutmix", lambda x: (mixed, other, 0.75))
    learner.train()
    surprise = -learner.all_logits(mixed).log_softmax(1)
    wanted = sum(0.75 * float(surprise[i, batch.y[i]]) + 0.25 * float(surprise[i, batch.y[other[i]]]) for i in range(4))
    assert float(learner(batch)["class"].detach()) == pytest.approx(wanted / 4, rel=1e-5)
    learner.eval()
    plain = float(F.cross_entropy(learner.all_logits(batch.x), batch.y))
    assert float(learner(batch)["class"]) == plain, "held-out images are not mixed"


def test_the_authors_passes_run(tmp_path):
    summary = run(tiny.experiment("gdumb", options={"passes": 3}), tmp_path / "run")
    assert summary["memory"]["images"] == 60


def test_with_the_task_given_only_its_classes_compete(world):
    learner, scenario = world("gdumb", buffer=9)
    for task in scenario.tasks:
        learner.begin_task(task)
    learner.eval()
    x = scenario.tasks[1].test.x[:5]
    everything = learner.predict(x, None)
    assert everything.shape == (5, 6)
    assert torch.equal(learner.predict(x, 1), everything[:, 2:4])
