"""Listening to a run: what a callback is told, and why it cannot change a bit of the result."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lockgate.config import Experiment
from lockgate.errors import CallbackError


class Callback:
    """Listens to a run. Override any of the four methods; each is given a copy that is its own to keep or change.

    Random numbers that a callback draws, threads and types that it sets, are put back before training goes on.
    An exception stops the run; its newest checkpoint stays, and the run can be resumed. A resumed run tells again what
    it does again. With several ranks, only the first one calls, in a process of its own.
    """

    @classmethod
    def for_run(cls, folder: Path) -> Callback:
        """What ``runtime.loggers`` makes of the class, for a run in ``folder``."""
        return cls()

    def on_run_start(self, experiment: Experiment) -> None:
        """A run begins, or goes on."""

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        """An epoch has ended: ``event`` (``epoch``, or what else was trained), ``task``, ``epoch``, ``losses``..."""

    def on_task_end(self, record: dict[str, Any]) -> None:
        """A task has ended: ``task``, ``task_incremental``, ``class_incremental``, ``capacity``, ``audit``..."""

    def on_run_end(self, summary: dict[str, Any]) -> None:
        """The last task has ended: the content of ``summary.json``."""


class Callbacks:
    """Calls all callbacks of a run, one after the other; ``remedy`` says how to go on if one fails."""

    def __init__(self, callbacks: Sequence[Callback], remedy: str) -> None:
        self._callbacks, self._remedy = tuple(callbacks), remedy

    def run_start(self, experiment: Experiment) -> None:
        """Tell that a run begins."""
        self._tell("on_run_start", experiment)

    def record(self, record: dict[str, Any]) -> None:
        """Tell that an epoch or a task has ended."""
        self._tell("on_task_end" if record["event"] == "task" else "on_epoch_end", record)

    def run_end(self, summary: dict[str, Any]) -> None:
        """Tell that a run has ended."""
        self._tell("on_run_end", summary)

    def _tell(self, hook: str, value: Any) -> None:
        for callback in self._callbacks:
            try:
                with unchanged():
                    getattr(callback, hook)(copy.deepcopy(value))
            except Exception as error:
                raise CallbackError(
                    f"The callback {type(callback).__name__} failed in {hook}: {type(error).__name__}: {error}. "
                    f"The newest checkpoint is intact: mend the callback or leave it out, then {self._remedy}."
                ) from error


@contextmanager
def unchanged() -> Iterator[None]:
    """Random numbers of torch, numpy and Python; threads, default type and gradients of torch: all as they were."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  what others draw from is the point
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    try:
        with torch.random.fork_rng(), torch.set_grad_enabled(torch.is_grad_enabled()):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
