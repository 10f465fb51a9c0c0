"""Walk a learner through its tasks with the engine's own parts, stopping after each task."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lockgate.config import Experiment
from lockgate.methods.base import Method
from lockgate.runs.build import build_learner, build_scenario
from lockgate.runs.loading import place
from lockgate.runs.task_phase import task_phase
from lockgate.training.device import make_fabric
from lockgate.training.loop import Fit, FitState
from lockgate.training.progress import Progress
from lockgate.types import Task


def walk(experiment: Experiment) -> Iterator[tuple[Method, tuple[Task, ...]]]:
    """After each task: the learner and the tasks it has seen."""
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
            Fit(fabric, phase, experiment, FitState(), lambda _: None, quiet).run(lambda _: None)
        learner.end_task(task)
        yield learner, scenario.tasks[: task.id + 1]
