"""The refit: the task classifier alone moves, on features that are what the streams compute for ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tests.support import tiny

from lockgate.methods.ccgn import refit
from lockgate.methods.ccgn.task_classifier import TaskClassifier
from lockgate.runs.loading import load
from lockgate.runs.run import resume, run
from lockgate.training.device import make_fabric
from lockgate.training.loop import Fit, FitState
from lockgate.training.optim import make_optimiser
from lockgate.training.progress import Progress
from lockgate.types import Batch

METHODS = pytest.mark.parametrize("method", ["ccgn-episodic", "ccgn-generative"])
BUFFER = 20


def ended(method: str, tasks: int = 2, **options):
    """A learner whose newest task has ended, and whose refit has not begun; all its tasks."""
    given = {"buffer": BUFFER} if method == "ccgn-episodic" else {"gan": {"iterations": 2, "width": 0.02}}
    learner, scenario = tiny.world(method, width=8, tasks=3, **{"refit": 5, "hidden": 12, **given, **options})
    for task in scenario.tasks[:tasks]:
        torch.manual_seed(task.id)
        learner.begin_task(task)
        tiny.vary_gates(learner, task.id)
        learner.end_task(task)
    return learner.eval(), scenario.tasks


def run_jobs(phase, learner) -> None:
    experiment = tiny.experiment("ccgn-episodic")
    Fit(make_fabric(experiment), phase, experiment, FitState(), lambda _: None, Progress(0, 0, quiet=True)).run(
        lambda _: None
    )
    learner.eval()


def keys(images) -> set[bytes]:
    return {bytes(image.flatten().tolist()) for image in images}


@METHODS
def test_only_the_task_classifier_moves(method):
    learner, tasks = ended(method)
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    run_jobs(learner.completion(tasks[1]), learner)
    moved = {name for name, value in learner.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {f"task_classifier.{layer}.{part}" for layer in ("squeeze", "out") for part in ("weight", "bias")}


def test_inputs_that_are_never_given_keep_their_weights():
    learner, tasks = ended("ccgn-episodic", tasks=3)
    before = learner.task_classifier.squeeze.weight.clone()
    phase = learner.completion(tasks[2])
    run_jobs(phase, learner)
    given = torch.zeros(before.shape[1], dtype=torch.bool)
    given[phase.trainable.used] = True
    assert not given.all(), "every channel can open: nothing to see here"
    assert torch.equal(learner.task_classifier.squeeze.weight[:, ~given], before[:, ~given])


@METHODS
@pytest.mark.parametrize("targets", ["task", "class"])
def test_it_begins_as_the_task_classifier_it_is_given(method, targets):
    learner, tasks = ended(method, targets=targets)
    x = torch.cat([task.test.x for task in tasks])
    before = learner.answers(x)["joint"]
    phase = learner.completion(tasks[1])
    phase.trainable.after_step()  # as after a step that changed nothing
    assert torch.allclose(learner.answers(x)["joint"], before, atol=1e-5)


def test_a_step_is_one_of_a_plain_mlp_on_standardised_features():
    torch.manual_seed(0)
    classifier = TaskClassifier(hidden=6)
    classifier.add_task(4, 1)
    classifier.add_task(4, 1)
    columns, features = torch.tensor([1, 3]), torch.rand(40, 6) * torch.tensor([1.0, 5.0, 0.1, 1.0, 2.0, 0.0]) + 3
    trainable = refit.Refit(classifier, columns, features).eval()  # without dropout
    target = torch.randint(0, 2, (40,))
    mean, scale = features.mean(0), features.std(0)
    scale[-1] = 1  # it never varies
    standard = (features - mean) / scale
    used = torch.tensor([1, 3, 4, 5, 6, 7])
    weight = (classifier.squeeze.weight.detach()[:, used] * scale).requires_grad_()
    bias = (classifier.squeeze.bias.detach() + classifier.squeeze.weight.detach()[:, used] @ mean).requires_grad_()
    out = [p.detach().clone().requires_grad_() for p in (classifier.out.weight, classifier.out.bias)]
    loss = F.cross_entropy(F.relu(standard @ weight.T + bias) @ out[0].T + out[1], target)
    loss.backward()
    ours = trainable(Batch(features, target, torch.zeros(40)))["task"]
    ours.backward()
    assert torch.allclose(ours, loss, atol=1e-6)
    assert torch.allclose(trainable.squeeze.weight.grad, weight.grad, atol=1e-6)
    assert torch.allclose(trainable.out.weight.grad, out[0].grad, atol=1e-6)

    optimiser = make_optimiser(trainable, refit.OPTIM)
    optimiser.step()
    trainable.after_step()
    learnt = trainable.out(F.relu(trainable.squeeze(standard)))
    past, newest = features.tensor_split([2], dim=1)
    assert torch.allclose(classifier(past, columns, newest), learnt, atol=1e-4)


@METHODS
def test_its_features_are_those_of_the_streams_bit_for_bit(method):
    learner, tasks = ended(method, tasks=3)
    seen = []
    learner.input.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    phase = learner.completion(tasks[2])
    *past, newest = learner.eval().streams(torch.cat(seen))
    seals = [learner.gated["conv3"].gate(t).seal for t in range(2)]
    assert not torch.cat(seals).all(), "every channel can open: nothing to see here"
    wanted = [features[:, seal] for features, seal in zip(past, seals, strict=True)]
    assert torch.equal(phase.data.x, torch.cat([*wanted, newest], dim=1))
    width = newest.shape[1]
    inputs = [t * width + k for t, seal in enumerate(seals) for k in range(width) if seal[k]]
    assert phase.trainable.used.tolist() == inputs + list(range(2 * width, 3 * width))
    assert torch.bincount(phase.data.y).unique().numel() == 1, "as many images of each task"


def test_when_a_task_has_ended_it_has_no_more_images_than_the_others():
    learner, tasks = ended("ccgn-episodic", tasks=3)
    seen = []
    learner.input.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    learner.completion(tasks[2])
    assert keys(torch.cat(seen)) <= keys(learner.memory.x)
    assert len(learner.memory.y) == BUFFER


def test_from_generators_no_real_image_is_seen():
    learner, tasks = ended("ccgn-generative", tasks=3, targets="class")
    seen = []
    learner.input.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    phase = learner.completion(tasks[2])
    real = keys(torch.cat([part.x for task in tasks for part in (task.train, task.val, task.test)]))
    assert seen
    assert not keys(torch.cat(seen)) & real
    assert (phase.data.y >= 0).all(), "the newest task's head is final: it names its classes"
    assert set(phase.data.y.tolist()) <= set(range(6))


@pytest.mark.parametrize(("tasks", "options"), [(2, {"refit": 0}), (2, {"seal": False}), (1, {})])
def test_there_is_none_where_nothing_is_asked_for_or_features_change_or_there_is_one_task(tasks, options):
    learner, every = ended("ccgn-episodic", tasks, **options)
    assert learner.completion(every[tasks - 1]) is None
    steps = learner.stage_steps([10] * tasks, lambda images: images)
    assert steps == [10] * tasks, "the progress bar does not wait for it"


def test_it_finds_tasks_that_the_task_classifier_did_not():
    learner, tasks = ended("ccgn-episodic", refit=200, buffer=60)
    x = torch.cat([task.train.x for task in tasks[:2]])
    right = torch.cat([task.train.task for task in tasks[:2]])

    def found() -> float:
        scores = learner.answers(x)["joint"].exp()
        return ((scores[:, 2:].sum(1) > scores[:, :2].sum(1)).long() == right).float().mean().item()

    before = found()
    run_jobs(learner.completion(tasks[1]), learner)
    assert found() > before + 0.2


def test_a_run_notes_it_and_ends_with_nothing_left_to_learn(tmp_path: Path):
    run(tiny.experiment("ccgn-episodic"), tmp_path / "run")
    events = [json.loads(line) for line in (tmp_path / "run" / "records.jsonl").read_text().splitlines()]
    assert [(e["event"], e["task"]) for e in events if e["event"] == "refit"] == [("refit", 1)]
    order = [e["event"] for e in events if e["task"] == 1]
    assert order.index("epoch") < order.index("refit") < order.index("task")


def test_a_run_that_is_stopped_inside_it_ends_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    experiment, whole, cut = tiny.experiment("ccgn-episodic"), tmp_path / "whole", tmp_path / "cut"
    run(experiment, whole)
    learn = refit.Refit.loss

    def stopped(self: refit.Refit, batch: Batch):
        if self.step == 1:
            raise KeyboardInterrupt
        return learn(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(refit.Refit, "loss", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(experiment, cut)
    resume(cut)
    one, other = (load(folder)[0].state_dict() for folder in (whole, cut))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
