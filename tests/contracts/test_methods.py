"""What every registered method must do, on every backbone. Registering a method enrols it here."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file
from tests.support import tiny
from torch.optim.optimizer import register_optimizer_step_pre_hook

from lockgate.methods import METHODS
from lockgate.runs import checkpoint
from lockgate.runs.build import build_learner, build_scenario
from lockgate.runs.loading import load
from lockgate.runs.run import run
from lockgate.types import Batch

every_method = pytest.mark.parametrize("method", list(METHODS))
every_backbone = pytest.mark.parametrize("backbone", tiny.BACKBONES)


def last_state(out):
    return load_file(checkpoint.found(out / "checkpoints")[-1].path / "learner.safetensors")


def begun(method, backbone="simple_cnn", **over):
    """A learner at the start of its first task, and that task."""
    experiment = tiny.experiment(method, backbone, **over)
    scenario = build_scenario(experiment)
    learner = build_learner(experiment, scenario.image_shape)
    learner.begin_task(scenario.tasks[0])
    return learner, scenario.tasks[0]


@every_method
@every_backbone
def test_predict_gives_logits_of_the_tasks_classes(method, backbone):
    learner, task = begun(method, backbone)
    learner.eval()
    for size in (1, 7):
        assert learner.predict(task.test.x[:size], task.id).shape == (size, len(task.classes))
    if learner.class_incremental:
        assert learner.predict(task.test.x[:3], None).shape == (3, len(task.classes))


@every_method
@every_backbone
def test_losses_are_finite_scalars_and_reach_every_trainable_parameter(method, backbone):
    learner, task = begun(method, backbone)
    learner.epoch = 10
    losses = learner(Batch(task.train.x[:8], task.train.y[:8], task.train.task[:8]))
    assert all(value.shape == () and torch.isfinite(value) for value in losses.values())
    sum(losses.values()).backward()
    unused = [name for name, p in learner.named_parameters() if p.requires_grad and p.grad is None]
    assert not unused, "data-parallel training needs every trainable parameter in every step"


@every_method
@every_backbone
def test_the_same_seed_gives_the_same_bits(method, backbone, tmp_path):
    experiment = tiny.experiment(method, backbone)
    first, second = run(experiment, tmp_path / "a"), run(experiment, tmp_path / "b")
    a, b = last_state(tmp_path / "a"), last_state(tmp_path / "b")
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert first["task_incremental"] == second["task_incremental"]


@every_method
@pytest.mark.parametrize("tasks", [1, 10])
def test_one_task_and_many_tasks_work(method, tasks, tmp_path):
    data = {"synthetic_classes": 20, "synthetic_per_class": 10}
    summary = run(tiny.experiment(method, tasks=tasks, epochs=1, data=data), tmp_path / "run")
    assert len(summary["task_incremental"]["matrix"][-1]) == tasks


@every_method
@every_backbone
def test_a_finished_run_loads_and_answers_as_its_summary_says(method, backbone, tmp_path):
    from lockgate.evaluation.accuracy import class_incremental, task_incremental

    summary = run(tiny.experiment(method, backbone), tmp_path / "run")
    learner, scenario, _ = load(tmp_path / "run")
    assert task_incremental(learner, scenario.tasks) == summary["task_incremental"]["matrix"][-1]
    if learner.class_incremental:
        assert class_incremental(learner, scenario.tasks) == summary["class_incremental"]["matrix"][-1]


@pytest.fixture
def steps():
    """For every step of any optimiser, whether there was a gradient to follow."""
    made = []

    def note(optimiser, *_):
        gradients = [p.grad for group in optimiser.param_groups for p in group["params"] if p.grad is not None]
        made.append(any(bool(g.any()) for g in gradients))

    hook = register_optimizer_step_pre_hook(note)
    yield made
    hook.remove()


@every_method
def test_a_batch_of_one_trains_on_every_image(method, tmp_path, steps):
    experiment = tiny.experiment(method, epochs=1, optim={"batch_size": 1})
    run(experiment, tmp_path / "run")
    images = sum(len(task.train) for task in build_scenario(experiment).tasks)
    assert sum(steps) >= (2 * 3 * 3 if method == "dgm" else images)  # its GAN has a schedule of its own


@every_method
def test_a_batch_larger_than_the_task_is_a_step(method, tmp_path, steps):
    run(tiny.experiment(method, epochs=1, optim={"batch_size": 512}), tmp_path / "run")
    assert sum(steps) >= (1 if METHODS[method].joint else 2)


# How much of what it was shown last a method must know, and what the tiny GANs need for it. C-Gen learns from generated
# images alone, so it knows what its GANs can show, and they take a while.
ENOUGH = {"cgen": 0.7}
TRAINED_GAN = {
    "dgm": {"gan": {"iterations": 40, "width": 0.05, "lr": 5e-3, "batch_size": 32}},
    "cgen": {"gan": {"iterations": 60, "width": 0.1, "lr": 3e-3, "batch_size": 32}},
}


@pytest.mark.parametrize("method", [pytest.param(m, marks=pytest.mark.slow) if m == "cgen" else m for m in METHODS])
def test_training_learns_real_digits(method, tmp_path):
    optim = {"optimiser": "adamw", "lr": 3e-3, "schedule": "one_cycle", "batch_size": 16}
    gates = {"open_bias": 1.5, "sparsity_warmup": 3, "gate_lr": 5.0} if method in tiny.GATED else {}
    options = {**gates, **TRAINED_GAN.get(method, {})}
    model = {"width": 32}
    experiment = tiny.experiment(
        method, dataset="digits", tasks=5, epochs=10, optim=optim, model=model, options=options
    )
    matrix = run(experiment, tmp_path / "run")["task_incremental"]["matrix"]
    when_learnt = [row[-1] for row in matrix] if len(matrix) > 1 else matrix[-1]
    assert sum(when_learnt) / len(when_learnt) > ENOUGH.get(method, 0.9)
