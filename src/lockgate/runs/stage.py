"""One task, from its beginning to its end: the order in which a run, and a loop of one's own, call a method's hooks.

begin_task -> preparation -> fit -> end_task
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lockgate.config import Experiment
from lockgate.methods.base import Method
from lockgate.runs.checkpoint import Checkpoint
from lockgate.runs.legacy import upgraded_names
from lockgate.runs.loading import load_inside, place
from lockgate.runs.task_phase import task_phase
from lockgate.training import distributed
from lockgate.training.loop import Fit, FitState
from lockgate.training.phase import Phase
from lockgate.training.progress import Progress
from lockgate.training.seeding import derive
from lockgate.types import Task


class StageListener:
    """What happens beside training: here, nothing."""

    advice: str = ""
    """What to do when training has diverged."""

    def phase_started(self, phase: Phase, main: bool) -> None:
        """Training of a phase begins or goes on; ``main``: it is the task itself."""

    def epoch_ended(self, phase: Phase, record: dict[str, Any]) -> None:
        """An epoch of a phase has ended."""

    def save(self, number: int, phase: Phase, before: int, state: FitState) -> None:
        """A checkpoint is due in the phase ``number``, ``before`` which so many steps of the stage were done."""


class Stage:
    """Trains ``learner`` on one task after the other by the one loop; ``listener`` keeps what is to be kept."""

    def __init__(
        self, fabric: Any, experiment: Experiment, learner: Method, listener: StageListener, progress: Progress
    ) -> None:
        self.fabric, self.experiment, self.learner = fabric, experiment, learner
        self.listener, self.progress = listener, progress

    def run(self, task: Task, inside: Checkpoint | None = None) -> FitState:
        """Learn ``task``, from ``inside`` it if a run was killed there; where its own training came to."""
        phases, first, state = self._begin(task, inside)
        for number, phase in list(enumerate(phases))[first:]:
            before = sum(p.epochs * p.steps for p in phases[:number])
            self.listener.phase_started(phase, phase is phases[-1])
            if phase.epochs:  # a method in closed form has nothing to train
                self._fit(phase, state, functools.partial(self.listener.save, number, phase, before))
            ended, state = state, FitState()
        torch.manual_seed(derive(self.experiment.seed, "end", task.id))
        self.learner.end_task(task)
        distributed.share_state(self.learner)
        return ended

    def _begin(self, task: Task, inside: Checkpoint | None) -> tuple[list[Phase], int, FitState]:
        """Call ``begin_task``; what to train, and from where if the run was killed inside this task."""
        torch.manual_seed(derive(self.experiment.seed, "begin", task.id))
        data = self.learner.begin_task(task)
        number, state = 0, FitState()
        if inside is not None:
            load_inside(self.learner, inside)
            meta = inside.manifest()["meta"]
            number = meta["phase"]
            best = inside.tensors("best")
            state = FitState.from_meta(meta["fit"], best and upgraded_names(best), inside.optimiser())
        place(self.learner, self.experiment, self.fabric.device)
        if self.experiment.runtime.feature_cache and not self.experiment.augment.active:
            self.learner.backbone.keep_prefix(Path(self.experiment.runtime.feature_cache))
        first = self.learner.preparation(task)
        phases = [first] if first else []
        return [*phases, task_phase(self.learner, task, data, self.experiment)], number, state

    def _fit(self, phase: Phase, state: FitState, save: Callable[[FitState], None]) -> None:
        fit = Fit(self.fabric, phase, self.experiment, state, save, self.progress, self.listener.advice)
        fit.run(functools.partial(self.listener.epoch_ended, phase))
