"""A run from its first task to its last, or from wherever it was killed.

    for each task:  learn it (stage.py) -> evaluate -> record -> callbacks -> checkpoint

To resume inside a task, the learner is taken back to the end of the task before, ``begin_task`` is called again (it is
cheap and deterministic), and the state inside the task, as far as it can change there, is loaded on top.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from lockgate.config import Experiment
from lockgate.runs import checkpoint
from lockgate.runs.build import anchored, build_learner, build_scenario, require_choice, validated
from lockgate.runs.checkpoint import Checkpoint
from lockgate.runs.directory import RunFolder
from lockgate.runs.given import ALONE, Given, fresh_folder
from lockgate.runs.launch import launch
from lockgate.runs.loading import before_newest, read_run, require_same_data
from lockgate.runs.process import ExtraState, Run
from lockgate.scenario import Scenario
from lockgate.training import distributed
from lockgate.training.device import make_fabric, prepare_process
from lockgate.training.loggers import make_loggers


def run(experiment: Experiment, out: Path, command: str | None = None, given: Given = ALONE) -> dict[str, Any]:
    """Carry out an experiment in a new folder and return its summary; ``command`` is kept beside the numbers."""
    return begin(experiment, out, command, given)[1]


def begin(
    experiment: Experiment, out: Path | None, command: str | None = None, given: Given = ALONE
) -> tuple[Path, dict[str, Any]]:
    """As ``run``, with what was ``given`` in Python; returns the folder too. Without ``out`` it is a fresh one."""
    objects = given.objects
    experiment = anchored(validated(objects.described(experiment), objects))
    given.require_sendable(experiment.devices)
    scenario = build_scenario(experiment, objects)  # so that bad data is known before a folder is made
    fabric = make_fabric(experiment)  # and so is a device that is not there
    make_loggers(experiment.runtime.loggers, out or Path())  # and a logger that is not installed
    learner = build_learner(experiment, scenario.image_shape, objects)  # and a method that cannot work on the network
    require_choice(scenario, learner)  # and tasks in which there is nothing to tell apart
    out = out or fresh_folder(experiment)
    folder = RunFolder(out)
    folder.create(experiment, command or f"lockgate run {out / 'config.yaml'} --out NEW", objects.note())
    with folder.lock():
        return out, _launch(fabric, experiment, scenario, folder, None, given)


def resume(out: Path, previous: bool = False, given: Given = ALONE) -> dict[str, Any]:
    """Continue the run in ``out`` from its newest checkpoint, or from the one before it."""
    folder = RunFolder(out)
    experiment = read_run(folder, given.objects)
    given.require_sendable(experiment.devices)
    with folder.lock():
        points = checkpoint.found(folder.checkpoints)
        start = before_newest(points, out) if previous else points[-1] if points else None
        scenario = build_scenario(experiment, given.objects)
        if start is not None:
            require_same_data(start, scenario, experiment)
        return _launch(make_fabric(experiment), experiment, scenario, folder, start, given)


def _launch(
    fabric: Any, experiment: Experiment, scenario: Scenario, folder: RunFolder, start: Checkpoint | None, given: Given
) -> dict[str, Any]:
    """Do the work in this process, which holds the folder, or in one process per rank."""
    work = functools.partial(_work, experiment=experiment, scenario=scenario, folder=folder, start=start, given=given)
    return work(fabric) if experiment.devices == 1 else launch(fabric, folder.path, work)


def _work(
    fabric: Any, experiment: Experiment, scenario: Scenario, folder: RunFolder, start: Checkpoint | None, given: Given
) -> dict[str, Any]:
    tuned = prepare_process(experiment)
    whole = Run(fabric, experiment, scenario, folder, start, ExtraState({"data": scenario.digest}), given)
    whole.go(tuned)
    summary = whole.summary()
    whole.callbacks.run_end(summary)
    distributed.leave()
    return summary
