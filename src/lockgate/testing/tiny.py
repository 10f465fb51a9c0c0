"""The smallest experiment that is still a real one: synthetic images, a narrow network, the paper's optimiser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from lockgate.config import Experiment, merge
from lockgate.methods.base import Method
from lockgate.runs.build import build_learner, build_scenario, experiment_from
from lockgate.runs.loading import place
from lockgate.runs.task_phase import task_phase
from lockgate.training.device import make_fabric
from lockgate.training.loop import Fit, FitState
from lockgate.training.progress import Progress
from lockgate.types import Task

_BASE: dict[str, Any] = {
    "dataset": "synthetic",
    "tasks": 2,
    "epochs": 2,
    "data": {"synthetic_classes": 4, "synthetic_per_class": 20},
    "model": {"width": 8},
    # The paper's optimiser, with everything on that moves a filter whose gradient is zero.
    "optim": {
        "optimiser": "sgd",
        "lr": 0.05,
        "momentum": 0.9,
        "weight_decay": 5e-4,
        "clip": 1.0,
        "batch_size": 8,
        "schedule": "constant",
    },
    "runtime": {"threads": 1, "accelerator": "cpu"},
}


def tiny_experiment(method: str = "finetune", backbone: str = "simple_cnn", **over: Any) -> Experiment:
    """Two tasks of two classes, a fraction of a second; keyword arguments are merged over it, group by group."""
    base = merge(_BASE, {"method": method, "backbone": backbone})
    if backbone == "resnet18":
        base["model"] = {"width": 4, "blocks": [1, 1]}
    return experiment_from(merge(base, over))


def walk(experiment: Experiment) -> Iterator[tuple[Method, tuple[Task, ...]]]:
    """Train a learner task by task with the engine's own parts; after each task: it and the tasks it has seen."""
    torch.set_num_threads(1)
    scenario = build_scenario(experiment)
    learner = build_learner(experiment, scenario.image_shape)
    fabric = make_fabric(experiment)
    for task in scenario.tasks:
        data = learner.begin_task(task)
        place(learner, experiment, fabric.device)
        quiet = Progress(1, 0, quiet=True)
        first = learner.preparation(task)
        for phase in [*([first] if first else []), task_phase(learner, task, data, experiment)]:
            if phase.epochs:
                Fit(fabric, phase, experiment, FitState(), lambda _: None, quiet).run(lambda _: None)
        learner.end_task(task)
        yield learner, scenario.tasks[: task.id + 1]
