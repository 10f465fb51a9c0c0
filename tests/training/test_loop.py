"""The loop itself: which images a step sees, which weights a task keeps, and when it refuses to go on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision

from lockgate.config import AugmentConfig, Experiment, OptimConfig, ScenarioConfig
from lockgate.errors import TrainingError
from lockgate.methods.base import Method
from lockgate.runs.build import build_learner, build_scenario, validated
from lockgate.runs.run import run
from lockgate.runs.task_phase import held_out_objective, task_phase
from lockgate.training.device import make_fabric
from lockgate.training.loop import Fit, FitState
from lockgate.training.phase import Validation, steps_per_epoch
from lockgate.training.progress import Progress
from lockgate.types import Batch, Examples, Task

Tiny = Callable[..., Experiment]


def begin(
    experiment: Experiment, data: Examples | None = None, save: Callable[[FitState], None] = lambda _: None
) -> tuple[Fit, Method, Task]:
    """The first task's training, about to begin."""
    experiment = validated(experiment)
    scenario = build_scenario(experiment)
    learner, task = build_learner(experiment, scenario.image_shape), scenario.tasks[0]
    torch.manual_seed(0)
    own = learner.begin_task(task)
    state, progress = FitState(), Progress(0, 0, quiet=True)
    fit = Fit(
        make_fabric(experiment),
        task_phase(learner, task, data or own, experiment),
        experiment,
        state,
        save,
        progress,
        "Lower `optim.lr`.",
    )
    return fit, learner, task


@given(st.integers(1, 10**6), st.integers(1, 10**4))
def test_an_epoch_has_as_many_steps_as_full_batches_and_at_least_one(images: int, batch: int) -> None:
    full = len(range(batch, images + 1, batch)) if images < 10**4 else math.floor(images / batch)
    assert steps_per_epoch(images, batch) == (full or 1)


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(images=st.integers(1, 40), batch=st.integers(1, 50))
def test_an_epoch_sees_each_image_at_most_once_in_full_batches(tiny: Tiny, images: int, batch: int) -> None:
    x = torch.randint(0, 255, (images, 3, 16, 16), dtype=torch.uint8)
    x[:, 0, 0, 0] = torch.arange(images).to(torch.uint8)  # each image carries its number
    data = Examples(x, torch.arange(images) % 2, torch.zeros(images, dtype=torch.int64))
    fit, learner, _ = begin(tiny(optim={"batch_size": batch}), data)
    seen: list[Batch] = []
    learner.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    for epoch in range(2):
        seen.clear()
        fit.state.step, fit.state.sums = 0, {}
        fit.train_epoch(epoch)
        numbers = [n for part in seen for n in part.x[:, 0, 0, 0].tolist()]
        assert len(numbers) == len(set(numbers))
        assert {len(part.y) for part in seen} == {min(batch, images)}
        assert len(seen) == max(1, images // batch)
        for part in seen:
            assert part.y.tolist() == [n % 2 for n in part.x[:, 0, 0, 0].tolist()], "labels stay with their images"


def test_epochs_and_tasks_and_seeds_are_drawn_in_orders_of_their_own(tiny: Tiny) -> None:
    orders = set()
    for seed in (0, 1):
        fit, learner, _ = begin(tiny(seed=seed, optim={"batch_size": 4}))
        seen: list[int] = []
        learner.register_forward_pre_hook(lambda _, a, seen=seen: seen.append(int(a[0].x.long().sum())))
        for task_id in (0, 1):
            fit.phase = replace(fit.phase, key=(task_id,))
            for epoch in (0, 1):
                seen.clear()
                fit.state.step, fit.state.sums = 0, {}
                fit.train_epoch(epoch)
                orders.add(tuple(seen))
    assert len(orders) == 8


@pytest.mark.parametrize("change", [{"random_translate": 2}, {"random_affine": 0.3}])
def test_training_images_vary_where_asked(tiny: Tiny, change: dict[str, Any]) -> None:
    fit, learner, task = begin(tiny(optim={"batch_size": 4}, augment=AugmentConfig(**change)))
    known = {image.numpy().tobytes() for image in task.train.x}
    seen: list[Batch] = []
    learner.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    fit.train_epoch(0)
    images = torch.cat([batch.x for batch in seen])
    assert images.dtype == torch.uint8
    assert sum(image.numpy().tobytes() in known for image in images) < len(images) / 2


def test_the_rate_recorded_is_that_of_the_last_step(tiny: Tiny) -> None:
    optim = {"optimiser": "sgd", "lr": 0.1, "schedule": "milestones", "milestones": (1, 3)}
    fit, _, _ = begin(tiny(epochs=4, optim=optim))
    records: list[dict[str, Any]] = []
    fit.run(records.append)
    assert [record["lr"] for record in records] == pytest.approx([0.1, 0.01, 0.01, 0.001])
    assert [record["epoch"] for record in records] == [0, 1, 2, 3]


def objective_of(learner: Method, examples: Examples) -> float:
    """Mean cross-entropy of a plain method, image by image."""
    learner.eval()
    with torch.no_grad():
        each = [
            float(F.cross_entropy(learner.predict(examples.x[i : i + 1], 0), examples.y[i : i + 1]))
            for i in range(len(examples))
        ]
    return sum(each) / len(each)


def test_the_held_out_objective_is_the_mean_over_images_not_over_batches(tiny: Tiny) -> None:
    _, learner, task = begin(tiny())
    many = Examples.union([task.train] * 15)  # 540 images: more than one batch of evaluation
    mine = objective_of(learner, task.train)
    assert held_out_objective(learner, many) == pytest.approx(mine, rel=1e-5)


def follow(fit: Fit, learner: Method, task: Task) -> tuple[list[dict[str, Any]], list[dict[str, torch.Tensor]]]:
    """Train, noting each epoch's record and weights."""
    records: list[dict[str, Any]] = []
    weights: list[dict[str, torch.Tensor]] = []

    def note(record: dict[str, Any]) -> None:
        records.append(record)
        weights.append({name: value.clone() for name, value in learner.state_dict().items()})
        assert record["val_objective"] == pytest.approx(objective_of(learner, task.val), rel=1e-4)

    fit.run(note)
    return records, weights


@pytest.mark.parametrize("selection", ["objective", "accuracy", "last"])
def test_a_task_keeps_the_weights_of_the_selected_epoch(tiny: Tiny, selection: str) -> None:
    chosen = []
    for seed in range(10):
        optim = {"selection": selection, "lr": 0.03, "schedule": "constant"}
        half = ScenarioConfig(held_out=0.5)
        fit, learner, task = begin(tiny(seed=seed, epochs=5, optim=optim, scenario=half))
        records, weights = follow(fit, learner, task)
        scores = {
            "objective": [-record["val_objective"] for record in records],
            "accuracy": [record["val_accuracy"] for record in records],
            "last": list(range(5)),
        }[selection]
        best = max(epoch for epoch in range(5) if scores[epoch] == max(scores))  # the later of equals
        chosen.append(best)
        assert all(torch.equal(value, weights[best][name]) for name, value in learner.state_dict().items())
        assert objective_of(learner, task.val) == pytest.approx(records[best]["val_objective"], rel=1e-4)
        assert fit.state.best_epoch == (-1 if selection == "last" else best)
    assert selection == "last" or min(chosen) < 4, "the last epoch was always the best: the test showed nothing"


@pytest.mark.parametrize(("warmup", "selected"), [(0, 0), (2, 2), (3, -1), ("loss", 1)])
def test_epochs_within_the_sparsity_warmup_are_no_candidates(tiny: Tiny, warmup: int | str, selected: int) -> None:
    fit, _, _ = begin(tiny(method="ccgn", epochs=3, options={"sparsity_warmup": warmup}))
    objectives = iter((1.0, 2.0, 3.0))  # each epoch is worse than the one before
    fit.phase = replace(fit.phase, validate=lambda: Validation(0.5, next(objectives)))
    fit.run(lambda record: None)
    assert fit.state.best_epoch == selected


def test_clipping_bounds_the_step_of_plain_sgd(tiny: Tiny) -> None:
    optim = {"optimiser": "sgd", "momentum": 0.0, "weight_decay": 0.0, "lr": 0.5, "schedule": "constant"}
    for clip in (0.01, 0.0):
        fit, learner, _ = begin(tiny(optim={**optim, "clip": clip}))
        before = torch.cat([p.detach().flatten().clone() for p in learner.parameters()])
        learner.train()
        fit.train_step(fit.phase.data.batch(slice(0, 16)))
        moved = float((torch.cat([p.detach().flatten() for p in learner.parameters()]) - before).norm())
        if clip:
            assert moved == pytest.approx(0.5 * clip, rel=1e-3)
        else:
            assert moved > 0.5 * 0.01 * 2, "the gradient was small: the test showed nothing"


def test_the_state_inside_a_task_survives_the_manifest() -> None:
    state = FitState(3, 7, {"class": torch.tensor(0.5), "sparsity": 0.25}, {"class": 7, "sparsity": 5}, -1.5, 2)
    again = FitState.from_meta(state.meta(), None, None)
    assert again.meta() == state.meta()
    assert again.sums == {"class": 0.5, "sparsity": 0.25}
    assert again.counts == {"class": 7, "sparsity": 5}
    assert FitState.from_meta(FitState().meta(), None, None) == FitState()


def test_a_loss_that_is_not_finite_is_an_error_with_a_remedy_and_reaches_no_checkpoint(
    tiny: Tiny, tmp_path: Path
) -> None:
    with pytest.raises(TrainingError, match=r"class loss is not finite at task 0, epoch 0, step 2.*`optim\.lr`"):
        run(tiny(optim={"lr": 1e30, "clip": 0.0}), tmp_path / "run")
    assert not (tmp_path / "run" / "summary.json").exists()
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize("epochs", [1, 2])
def test_weights_that_diverge_in_the_last_step_of_an_epoch_reach_no_checkpoint(
    tiny: Tiny, tmp_path: Path, epochs: int
) -> None:
    optim = OptimConfig(batch_size=1000, lr=1e30, clip=0.0)  # one step an epoch: its loss is still finite
    with pytest.raises(TrainingError):
        run(replace(tiny(tasks=1, epochs=epochs), optim=optim), tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_weights_that_a_step_made_infinite_reach_no_checkpoint(tiny: Tiny) -> None:
    fit, learner, _ = begin(tiny())
    fit.save()
    with torch.no_grad():
        next(learner.parameters()).view(-1)[0] = math.inf
    with pytest.raises(TrainingError, match="network is not finite at task 0, epoch 0, step 0"):
        fit.save()


def of_a_generator(tiny: Tiny) -> Fit:
    """Training of a generator in rounds of two critic steps and one of its own, about to begin."""
    options = {"gan": {"width": 0.02, "iterations": 4, "critic_steps": 2, "batch_size": 8}}
    fit, learner, task = begin(tiny(method="ccgn-generative", options=options))
    phase = learner.preparation(task)
    assert phase is not None
    return Fit(fit.fabric, phase, fit.experiment, FitState(), lambda _: None, fit.progress)


def test_weights_of_a_generator_that_are_infinite_reach_no_checkpoint(tiny: Tiny) -> None:
    fit = of_a_generator(tiny)
    fit.train_step(fit.draw(torch.arange(len(fit.phase.data)), 0))  # between its steps, nothing of it asks to learn
    fit.save()
    with torch.no_grad():
        next(fit.trainable.get_submodule("generator").parameters()).view(-1)[0] = math.inf
    with pytest.raises(TrainingError, match="network is not finite"):
        fit.save()


def test_a_loss_is_averaged_over_the_steps_that_have_it(tiny: Tiny) -> None:
    fit, seen = of_a_generator(tiny), list[dict[str, float]]()
    step = fit.train_step

    def noted(batch: Batch) -> dict[str, torch.Tensor]:
        losses = step(batch)
        seen.append({name: float(value.detach()) for name, value in losses.items()})
        return losses

    fit.train_step = noted  # type: ignore[method-assign]
    found = fit.train_epoch(0)
    assert len([losses for losses in seen if "generator" in losses]) < len(seen)
    for name, mean in found.items():
        values = [losses[name] for losses in seen if name in losses]
        assert mean == pytest.approx(sum(values) / len(values), rel=1e-4)


def test_the_scaler_of_mixed_precision_goes_on_where_it_stood(tiny: Tiny) -> None:
    saved: list[FitState] = []
    fit, _, _ = begin(tiny(), save=saved.append)
    fit.fabric = Fabric(accelerator="cpu", plugins=MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu")))
    fit.fabric.strategy.precision.scaler.scale(torch.ones(()))
    fit.fabric.strategy.precision.scaler.update(256.0)
    fit.save()
    other = Fabric(accelerator="cpu", plugins=MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu")))
    phase = replace(fit.phase, trainable=build_learner(fit.experiment, (3, 16, 16)))
    phase.trainable.begin_task(build_scenario(fit.experiment).tasks[0])
    Fit(other, phase, fit.experiment, saved[0], saved.append, fit.progress, "")
    assert other.strategy.precision.state_dict() == fit.fabric.strategy.precision.state_dict()
