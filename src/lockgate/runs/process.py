"""One process's part of a run: the stages that are left to do, each learnt, tested, recorded and kept."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch

from lockgate.config import Experiment
from lockgate.evaluation.features import StreamFeatures
from lockgate.layers.per_task import live_state
from lockgate.methods.protocols import report_of
from lockgate.runs import checkpoint
from lockgate.runs.build import build_learner, require_choice
from lockgate.runs.checkpoint import Checkpoint
from lockgate.runs.directory import RunFolder
from lockgate.runs.given import ALONE, Given
from lockgate.runs.loading import end_before, load_end
from lockgate.runs.log import RunLog, read_ends
from lockgate.runs.results import epoch_in_words, in_words, outcome
from lockgate.runs.stage import Stage, StageListener
from lockgate.runs.summary import environment, make_summary
from lockgate.scenario import Scenario, join
from lockgate.training import distributed
from lockgate.training.callbacks import Callbacks
from lockgate.training.device import TUNE, require_promised
from lockgate.training.loggers import make_loggers
from lockgate.training.loop import FitState
from lockgate.training.phase import Phase, steps_per_epoch
from lockgate.training.progress import Progress
from lockgate.types import State, Task

MANY_TESTS = 10_000
"""From so many test images on, it is said that they are tested: it may take a while."""


@dataclass(frozen=True)
class ExtraState:
    """What every checkpoint carries beside the learner; a model that grows has the names of its tasks there."""

    meta: dict[str, Any] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)


class Run(StageListener):
    """One process's part of a run, or of one task of a model that grows: the stages that are left to do."""

    def __init__(
        self,
        fabric: Any,
        experiment: Experiment,
        scenario: Scenario,
        folder: RunFolder,
        start: Checkpoint | None,
        extra_state: ExtraState | None = None,
        given: Given = ALONE,
    ) -> None:
        self.fabric, self.experiment, self.scenario, self.folder = fabric, experiment, scenario, folder
        self.extra_state, self.quiet, self.advice = extra_state or ExtraState(), given.quiet, folder.advice
        self.first, self.environment = distributed.rank() == 0, environment()
        meta: dict[str, Any] = {"stage": 0, "records": 0, "seconds": 0.0}  # of a run that has not begun
        base = self._inside = None
        if start is not None:
            meta = start.manifest()["meta"]
            base = start if start.kind == "task" else end_before(start)
            self._inside = start if start.kind == "fit" else None
        self.learner = build_learner(experiment, scenario.image_shape, given.objects, weights=base is None)
        if base is not None:
            load_end(self.learner, base, experiment)
        self.stages = (join(scenario.tasks),) if self.learner.joint else scenario.tasks
        listening = [*make_loggers(experiment.runtime.loggers, folder.path), *given.callbacks] if self.first else []
        self.callbacks = Callbacks(listening, folder.remedy)
        self.records = RunLog(folder.records, meta, self.first)
        require_promised(read_ends(folder.records, meta), fabric.device, str(folder.path))
        self.stage: int = meta["stage"]
        self._at_end = self.stage == len(self.stages)  # nothing is left to do
        self.features = StreamFeatures()
        self._before: float = meta["seconds"]  # that this stage took in processes that were killed

    def go(self, tuned: bool = False) -> None:
        """All remaining tasks. ``tuned``: the allocator of this process was."""
        optim = self.experiment.optim
        steps = self.learner.stage_steps(
            [len(stage.train) for stage in self.stages],
            lambda images: self.experiment.epochs * steps_per_epoch(images, optim.batch_size),
        )
        done = sum(steps[: self.stage]) + (self._inside.manifest()["meta"]["done"] if self._inside else 0)
        self.progress = Progress(sum(steps), done, quiet=self.quiet or not self.first)
        self.training = Stage(self.fabric, self.experiment, self.learner, self, self.progress)
        self.callbacks.run_start(self.experiment)
        with self.folder.writing(), torch.random.fork_rng(), self.progress:
            if tuned:
                self.progress.log(f"C allocator tuned for training on CPU; {TUNE}=0 in the environment leaves it alone")
            trivial = require_choice(self.scenario, self.learner)
            if trivial:
                self.progress.log(f"warning: {trivial}")
            for index in range(self.stage, len(self.stages)):
                self._clock = time.monotonic()
                self._stage(index, self.stages[index])
        distributed.barrier()  # the first rank has written its last record

    def summary(self) -> dict[str, Any]:
        """What the run came to; written to its folder."""
        names = [list(self.scenario.names(task)) for task in self.scenario.tasks]
        made = (self.folder.command(), self.environment, self.learner.version_of(self.experiment.options))
        summary = make_summary(self.experiment, names, self.records.read(), *made)
        if self._at_end and self.folder.summary.is_file():  # it was made where, and by what, the run ended: not here
            before = self.folder.read_summary()
            summary |= {key: before.get(key) for key in ("environment", "method_version")}
        if self.first:
            with self.folder.writing():
                self.folder.write_summary(summary)
        return summary

    def _stage(self, index: int, task: Task) -> None:
        self.stage, self.label = index, f"task {index + 1}/{len(self.stages)}"
        inside, self._inside = self._inside, None
        ended = self.training.run(task, inside)
        self._record_task(index, ended)
        self._save("task", {"stage": index + 1, "seconds": 0.0, **self.records.meta()})
        self._before = 0.0

    def phase_started(self, phase: Phase, main: bool) -> None:
        """Show what is being learnt now, and say if it is not in the precision that was asked for."""
        name = self.label if main else f"{self.label}  {phase.key[-1]}"
        self.progress.stage(name)
        asked = self.experiment.runtime.precision
        if asked != "32-true" and not phase.trainable.wrapped:
            self.progress.log(f"{name}  trained in fp32, not in {asked}: GANs are, whatever `runtime.precision` says")

    def epoch_ended(self, phase: Phase, record: dict[str, Any]) -> None:
        """Write the record of an epoch, show it, tell the callbacks."""
        self.records.append(record)
        if self.first and phase.preview is not None:
            self.folder.write_picture("-".join(str(part) for part in reversed(phase.key)), phase.preview().cpu())
        self.progress.log(f"{self.label}  {epoch_in_words(record, phase.epochs)}")
        self.callbacks.record(record)

    def _record_task(self, index: int, state: FitState) -> None:
        ends = [r for r in self.records.read() if r["event"] == "task"]
        last = index == len(self.stages) - 1
        before, images = self._seconds(), sum(len(task.test) for task in self.scenario.tasks[: index + 1])
        if images >= MANY_TESTS:
            self.progress.log(f"{self.label}  testing on {images:,} images (--eval.images N: on fewer)")
        found = outcome(
            self.learner, self.scenario, ends, index, last, self.experiment.seed, self.features, self._testing
        )
        seconds = self._seconds()
        record = {
            "event": "task",
            "task": index,
            "seconds": seconds,
            "test_seconds": seconds - before,
            "threads": torch.get_num_threads(),
            "device": self.fabric.device.type,
            "best_epoch": state.best_epoch,
            **found,
        }
        self.records.append(record)
        sample = self.learner.memory.shown() if self.learner.memory is not None else None
        if self.first and sample is not None:
            self.folder.write_picture("memory", sample.cpu())
        for line in in_words(record, report_of(self.learner)):
            self.progress.log(f"{self.label}  {line}")
        self.callbacks.record(record)

    def _testing(self, what: str) -> None:
        """Show what is being tested now: on many images it takes longer than learning."""
        self.progress.stage(f"{self.label}  testing: {what}")

    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._clock

    def save(self, number: int, phase: Phase, before: int, state: FitState) -> None:
        """Checkpoint inside the task."""
        meta = {
            "stage": self.stage,
            "phase": number,
            "done": before + state.epoch * phase.steps + state.step,
            "seconds": self._seconds(),
            "fit": state.meta(),
            **self.records.meta(),
        }
        states = {} if state.best is None else {"best": state.best}
        self._save("fit", meta, states, state.optimiser)

    def _save(self, kind: checkpoint.Kind, meta: dict[str, Any], states: Any = None, optimiser: Any = None) -> None:
        if not self.first:
            return
        learner = live_state(self.learner)
        if kind == "task":
            learner = self.learner.state_dict()
            names = [self.scenario.names(task) for task in self.scenario.tasks]
            meta = {**meta, "image_shape": self.scenario.image_shape, "classes": names}  # for ``load_alone``
        meta = {**meta, **self.extra_state.meta, "structure": self.learner.structure()}
        states = {"learner": learner, **self.extra_state.states, **(states or {})}
        checkpoint.save(self.folder.checkpoints, kind, meta, states, optimiser)
