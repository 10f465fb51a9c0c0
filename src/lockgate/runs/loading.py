"""A learner as a checkpoint left it; which checkpoint of a run that is, and whether its data are still the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lockgate.config import Experiment
from lockgate.errors import CheckpointError
from lockgate.layers.init import left_empty
from lockgate.layers.per_task import load_live_state
from lockgate.methods.base import Method
from lockgate.runs import checkpoint
from lockgate.runs.build import build_learner, build_scenario, validated
from lockgate.runs.checkpoint import Checkpoint
from lockgate.runs.directory import RunFolder
from lockgate.runs.legacy import upgraded_names, upgraded_structure
from lockgate.runs.log import read_ends
from lockgate.runs.objects import NOTHING, Objects, require_objects
from lockgate.scenario import Scenario
from lockgate.training.device import prepare_process
from lockgate.types import State


def read_run(folder: RunFolder, objects: Objects = NOTHING, data: bool = True) -> Experiment:
    """The experiment of a run; raises unless what it was given as ``objects`` is given again."""
    experiment = folder.experiment()
    require_objects(folder.path, folder.objects(), objects, data)
    return validated(experiment, objects, data)


def load(out: Path, objects: Objects = NOTHING) -> tuple[Method, Scenario, Experiment]:
    """The learner of a run as its newest end of a task left it, for evaluation."""
    folder = RunFolder(out)
    experiment = read_run(folder, objects)
    end = _newest_end(folder)
    prepare_process(experiment)
    scenario = build_scenario(experiment, objects)
    require_same_data(end, scenario, experiment)
    learner = build_learner(experiment, scenario.image_shape, objects, weights=False)
    load_end(learner, end, experiment)
    return learner, scenario, experiment


def load_alone(out: Path, objects: Objects = NOTHING) -> tuple[Method, tuple[tuple[str, ...], ...], Experiment]:
    """As ``load``, on a machine that need not have the data: the learner and the names of its classes, by task."""
    folder = RunFolder(out)
    experiment = read_run(folder, objects, data=False)
    end = _newest_end(folder)
    meta = end.manifest()["meta"]
    if "image_shape" not in meta:  # of a version that did not note it
        learner, scenario, _ = load(out, objects)
        return learner, tuple(map(scenario.names, scenario.tasks[: len(learner.heads)])), experiment
    prepare_process(experiment)
    learner = build_learner(experiment, tuple(meta["image_shape"]), objects, weights=False)
    load_end(learner, end, experiment)
    return learner, tuple(map(tuple, meta["classes"][: len(learner.heads)])), experiment


def read_ends_of(out: Path) -> list[dict[str, Any]]:
    """The records of all tasks that a run has finished."""
    folder = RunFolder(out)
    return read_ends(folder.records, _newest_end(folder).manifest()["meta"])


def before_newest(points: list[Checkpoint], out: Path) -> Checkpoint:
    """The newest checkpoint but one, or the first before it that is whole."""
    for point in reversed(points[:-1]):
        try:
            point.manifest()
            base = end_before(point) if point.kind == "fit" else None
            if base is not None:
                base.manifest()
            return point
        except CheckpointError:
            continue
    remedy = f"`lockgate resume {out}` goes on from the newest"
    try:
        points[-1].manifest()
    except (CheckpointError, IndexError):
        remedy = "restore one from a copy, or start a new run"
    raise CheckpointError(f"{out} has no whole checkpoint before the newest; {remedy}.")


def require_same_data(point: Checkpoint, scenario: Scenario, experiment: Experiment) -> None:
    """Raise if the images are not those that the run began with."""
    before = point.manifest()["meta"].get("data")  # earlier versions did not note it
    if before is not None and before != scenario.digest:
        where = f" in {experiment.data_dir}" if experiment.data_dir else ""
        raise CheckpointError(
            f"The images of {experiment.dataset!r}{where} are not those that the run began with: some were added, "
            "removed, renamed or changed, or decode differently here. Put them back as they were, or start a new run."
        )


def _newest_end(folder: RunFolder) -> Checkpoint:
    end = checkpoint.newest_end(folder.checkpoints)
    if end is None:
        raise CheckpointError(
            f"{folder.path} has not finished a task yet; continue it with `lockgate resume {folder.path}`."
        )
    return end


def end_before(point: Checkpoint) -> Checkpoint | None:
    """The end of the task before the one that ``point`` stands in."""
    ends = [c for c in checkpoint.found(point.path.parent) if c.kind == "task" and c.number < point.number]
    return ends[-1] if ends else None


def load_end(learner: Method, point: Checkpoint, experiment: Experiment) -> None:
    """Make a fresh learner what it was at the end of a task."""
    with torch.random.fork_rng(devices=[]), left_empty():  # whatever a module draws all the same is overwritten
        learner.rebuild(upgraded_structure(point.manifest()["meta"]["structure"], learner.backbone.widths()))
    _load(learner.load_state_dict, point)
    place(learner, experiment, torch.device("cpu"))


def load_inside(learner: Method, point: Checkpoint) -> None:
    """Make a learner that has begun a task what it was inside it."""
    _load(functools.partial(load_live_state, learner), point)


def _load(load: Callable[[State], object], point: Checkpoint) -> None:
    tensors = point.tensors("learner")
    assert tensors is not None
    try:
        load(upgraded_names(tensors))
    except RuntimeError as error:
        told = [line.strip() for line in str(error).splitlines()]
        some = told[1][:300] if len(told) > 1 else str(error)[:300]  # one tensor of, maybe, hundreds
        raise CheckpointError(
            f"{point.path} does not fit the configuration beside it; was that edited? Put it back as it was. ({some})"
        ) from error


def place(learner: Method, experiment: Experiment, device: torch.device) -> None:
    """Move to the device, in the memory format of the run: kernels, and so bits, depend on both."""
    if learner.input.mean.device != device:  # to move what is there already takes as long as to load it
        learner.to(device)
    if experiment.runtime.channels_last:
        learner.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
