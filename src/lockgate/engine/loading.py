"""A learner as a checkpoint left it."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from lockgate.config import Experiment
from lockgate.engine import checkpoint
from lockgate.engine.checkpoint import Checkpoint, State
from lockgate.errors import CheckpointError
from lockgate.layers.per_task import load_live_state
from lockgate.methods.base import Learner


def end_before(point: Checkpoint) -> Checkpoint | None:
    """The end of the task before the one that ``point`` stands in."""
    ends = [c for c in checkpoint.found(point.path.parent) if c.kind == "task" and c.number < point.number]
    return ends[-1] if ends else None


def load_end(learner: Learner, point: Checkpoint, experiment: Experiment) -> None:
    """Make a fresh learner what it was at the end of a task."""
    with torch.random.fork_rng(devices=[]):  # new modules are initialised, then overwritten
        learner.rebuild(point.manifest()["meta"]["structure"])
    _load(learner.load_state_dict, point)
    place(learner, experiment, torch.device("cpu"))


def load_inside(learner: Learner, point: Checkpoint) -> None:
    """Make a learner that has begun a task what it was inside it."""
    _load(functools.partial(load_live_state, learner), point)


def _load(load: Callable[[State], object], point: Checkpoint) -> None:
    tensors = point.tensors("learner")
    assert tensors is not None
    try:
        load(tensors)
    except RuntimeError as error:
        raise CheckpointError(
            f"{point.path} does not fit the configuration beside it; was that edited? Put it back as it was. ({error})"
        ) from error


def place(learner: Learner, experiment: Experiment, device: torch.device) -> None:
    """Move to the device, in the memory format of the run: kernels, and so bits, depend on both."""
    learner.to(device)
    if experiment.runtime.channels_last:
        learner.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
