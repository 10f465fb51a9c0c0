"""``train_task``: one task for a method in a loop of one's own, by the same code as in a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from lockgate.config import Experiment, OptimConfig, RuntimeConfig, build
from lockgate.errors import ConfigError
from lockgate.methods.base import Method
from lockgate.runs.results import epoch_in_words
from lockgate.runs.stage import Stage, StageListener
from lockgate.training.callbacks import Callback, Callbacks
from lockgate.training.device import make_fabric, prepare_process
from lockgate.training.phase import Phase
from lockgate.training.progress import Progress
from lockgate.types import Task


def train_task(
    method: Method,
    task: Task,
    *,
    epochs: int = 5,
    optim: OptimConfig | Mapping[str, Any] | None = None,
    runtime: RuntimeConfig | Mapping[str, Any] | None = None,
    seed: int = 0,
    callbacks: Sequence[Callback] = (),
    quiet: bool = True,
) -> list[dict[str, Any]]:
    """Teach ``method`` one more task: begin_task, preparation, training, end_task, in this order.

    No folder, no checkpoints; nothing is tested. ``optim`` and ``runtime`` are the groups of an ``Experiment``, as
    objects or keywords. With the same seed the weights are, to the bit, those of ``lockgate.run``. Callbacks hear
    ``on_epoch_end``. Returns the record of every epoch.
    """
    _require_next(method, task)
    experiment = build(Experiment, {"epochs": epochs, "seed": seed, "optim": _plain(optim), "runtime": _plain(runtime)})
    prepare_process(experiment)
    progress = Progress(0, 0, quiet=quiet)
    heard = _Heard(task, callbacks, progress)
    with torch.random.fork_rng(), progress:
        Stage(make_fabric(experiment), experiment, method, heard, progress).run(task)
    return heard.records


class _Heard(StageListener):
    """Keeps the record of every epoch."""

    advice = "Lower `optim.lr`, keep `optim.clip` on, or look for broken images."

    def __init__(self, task: Task, callbacks: Sequence[Callback], progress: Progress) -> None:
        self.records: list[dict[str, Any]] = []
        self._callbacks = Callbacks(callbacks, "train the task again, with a method made anew")
        self._progress, self._label = progress, f"task {task.id + 1}"

    def epoch_ended(self, phase: Phase, record: dict[str, Any]) -> None:
        self.records.append(record)
        self._progress.log(f"{self._label}  {epoch_in_words(record, phase.epochs)}")
        self._callbacks.record(record)


def _plain(group: Any) -> dict[str, Any]:
    """A group of the configuration as keywords."""
    if group is None or isinstance(group, Mapping):
        return dict(group or {})
    return dict(vars(group))


def _require_next(method: Method, task: Task) -> None:
    known = len(method.heads)
    wanted = 0 if method.joint else known
    if task.id != wanted or bool(task.parts) != method.joint:
        remedy = "Give it all tasks at once: join(tasks)." if method.joint else "Give it the tasks in their order."
        got = "all tasks joined" if task.parts else f"task {task.id}"
        raise ConfigError(
            [f"{type(method).__name__} has learnt {known} tasks. Got {got} instead of the next. {remedy}"]
        )
