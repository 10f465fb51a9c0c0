"""A run from its first task to its last, or from wherever it was killed.

    for each task:  begin_task -> preparation -> fit -> end_task -> completion -> evaluate -> record -> checkpoint

To resume inside a task, the learner is taken back to the end of the task before, ``begin_task`` is called again (it is
cheap and deterministic), and the state inside the task, as far as it can change there, is loaded on top.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from lockgate.config import Experiment
from lockgate.errors import LockgateError
from lockgate.evaluation.features import StreamFeatures
from lockgate.layers.per_task import live_state
from lockgate.methods.protocols import report_of
from lockgate.runs import checkpoint
from lockgate.runs.build import build_learner, build_scenario, validated
from lockgate.runs.checkpoint import Checkpoint
from lockgate.runs.directory import RunFolder
from lockgate.runs.launch import launch
from lockgate.runs.legacy import upgraded_names
from lockgate.runs.loading import before_newest, end_before, load_end, load_inside, place, require_same_data
from lockgate.runs.log import RunLog, read_ends
from lockgate.runs.results import in_words, outcome
from lockgate.runs.summary import environment, make_summary
from lockgate.runs.task_phase import task_phase
from lockgate.scenario import Scenario, join
from lockgate.training import distributed
from lockgate.training.device import TUNE, make_fabric, prepare_process, require_promised
from lockgate.training.loop import Fit, FitState
from lockgate.training.phase import Phase, steps_per_epoch
from lockgate.training.progress import Progress
from lockgate.training.seeding import derive
from lockgate.training.tensorboard import TensorBoardLogger
from lockgate.types import State, Task


def run(experiment: Experiment, out: Path, command: str | None = None) -> dict[str, Any]:
    """Carry out an experiment in a new folder and return its summary; ``command`` is kept beside the numbers."""
    experiment = validated(experiment)
    if experiment.data_dir is not None:  # it may be resumed from another place
        experiment = replace(experiment, data_dir=str(Path(experiment.data_dir).absolute()))
    scenario = build_scenario(experiment)  # so that bad data is known before a folder is made
    fabric = make_fabric(experiment)  # and so is a device that is not there
    folder = RunFolder(out)
    folder.create(experiment, command or f"lockgate run {out / 'config.yaml'} --out NEW")
    with folder.lock():
        return _launch(fabric, experiment, scenario, folder, None)


def resume(out: Path, previous: bool = False) -> dict[str, Any]:
    """Continue the run in ``out`` from its newest checkpoint, or from the one before it."""
    folder = RunFolder(out)
    experiment = validated(folder.experiment())
    with folder.lock():
        points = checkpoint.found(folder.checkpoints)
        start = before_newest(points, out) if previous else points[-1] if points else None
        scenario = build_scenario(experiment)
        if start is not None:
            require_same_data(start, scenario, experiment)
        return _launch(make_fabric(experiment), experiment, scenario, folder, start)


def _launch(
    fabric: Any, experiment: Experiment, scenario: Scenario, folder: RunFolder, start: Checkpoint | None
) -> dict[str, Any]:
    """Do the work in this process, which holds the folder, or in one process per rank."""
    work = functools.partial(_work, experiment=experiment, scenario=scenario, folder=folder, start=start)
    return launch(fabric, experiment.devices, folder.path, work)


def _work(
    fabric: Any, experiment: Experiment, scenario: Scenario, folder: RunFolder, start: Checkpoint | None
) -> dict[str, Any]:
    tuned = prepare_process(experiment)
    whole = Run(fabric, experiment, scenario, folder, start, ExtraState({"data": scenario.digest}))
    whole.go(tuned)
    summary = whole.summary()
    distributed.leave()
    return summary


def _best(inside: Checkpoint) -> State | None:
    best = inside.tensors("best")
    return None if best is None else upgraded_names(best)


@dataclass(frozen=True)
class ExtraState:
    """What every checkpoint carries beside the learner; a model that grows has the names of its tasks there."""

    meta: dict[str, Any] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)


class Run:
    """One process's part of a run, or of one lesson of a model that grows: the stages that are left to do."""

    def __init__(
        self,
        fabric: Any,
        experiment: Experiment,
        scenario: Scenario,
        folder: RunFolder,
        start: Checkpoint | None,
        extra_state: ExtraState | None = None,
        quiet: bool = False,
    ) -> None:
        self.fabric, self.experiment, self.scenario, self.folder = fabric, experiment, scenario, folder
        self.extra_state, self.quiet = extra_state or ExtraState(), quiet
        self.first, self.environment = distributed.rank() == 0, environment()
        self.learner = build_learner(experiment, scenario.image_shape)
        self.stages = (join(scenario.tasks),) if self.learner.joint else scenario.tasks
        meta: dict[str, Any] = {"stage": 0, "records": 0, "seconds": 0.0}  # of a run that has not begun
        self._inside: Checkpoint | None = None
        if start is not None:
            meta = start.manifest()["meta"]
            base = start if start.kind == "task" else end_before(start)
            if base is not None:
                load_end(self.learner, base, experiment)
            self._inside = start if start.kind == "fit" else None
        tensorboard = (
            TensorBoardLogger(folder.path, experiment.epochs) if experiment.runtime.tensorboard and self.first else None
        )
        self.records = RunLog(folder.records, meta, self.first, tensorboard)
        require_promised(read_ends(folder.records, meta), fabric.device, str(folder.path))
        self.stage: int = meta["stage"]
        self._at_end = self.stage == len(self.stages)  # nothing is left to do
        self.features = StreamFeatures()
        self._before: float = meta["seconds"]
        """Seconds this stage took in processes that were killed."""

    def go(self, tuned: bool = False) -> None:
        """All remaining tasks. ``tuned``: the allocator of this process was."""
        optim = self.experiment.optim
        steps = self.learner.stage_steps(
            [len(stage.train) for stage in self.stages],
            lambda images: self.experiment.epochs * steps_per_epoch(images, optim.batch_size),
        )
        done = sum(steps[: self.stage]) + (self._inside.manifest()["meta"]["done"] if self._inside else 0)
        progress = Progress(sum(steps), done, quiet=self.quiet or not self.first)
        with self._writing(), torch.random.fork_rng(), progress as self.progress:
            if tuned:
                self.progress.log(f"C allocator tuned for training on CPU; {TUNE}=0 in the environment leaves it alone")
            for index in range(self.stage, len(self.stages)):
                self._clock = time.monotonic()
                self._stage(index, self.stages[index])
        distributed.barrier()  # the first rank has written its last record

    def summary(self) -> dict[str, Any]:
        """What the run came to; written to its folder."""
        records, command = self.records.read(), self.folder.command()
        summary = make_summary(self.experiment, self.scenario, records, command, self.environment)
        if self._at_end and self.folder.summary.is_file():  # it was made where the run ended, not here
            summary["environment"] = self.folder.read_summary()["environment"]
        if self.first:
            with self._writing():
                self.folder.write_summary(summary)
        return summary

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Say in words that something cannot be written."""
        try:
            yield
        except ConnectionError:  # of a pipe or another rank: no file is to blame
            raise
        except OSError as error:
            raise LockgateError(
                f"Cannot write to {self.folder.path}: {error.strerror or error}. The newest checkpoint is intact: make "
                f"room or mend permissions, then {self.folder.remedy}."
            ) from error

    def _stage(self, index: int, task: Task) -> None:
        self.stage = index
        label = f"task {index + 1}/{len(self.stages)}"
        phases, begin, state = self._begin(task)
        for number, phase in list(enumerate(phases))[begin:]:
            self.progress.stage(label if phase is phases[-1] else f"{label}  {phase.key[-1]}")
            before = sum(p.epochs * p.steps for p in phases[:number])
            save = functools.partial(self._save_fit, number, phase, before)
            fit = Fit(self.fabric, phase, self.experiment, state, save, self.progress, self.folder.advice)
            fit.run(functools.partial(self._record_epoch, label, phase))
            ended, state = fit.state, FitState()
        torch.manual_seed(derive(self.experiment.seed, "end", task.id))
        self.learner.end_task(task)
        distributed.share_state(self.learner)
        self._complete(label, task)
        self._record_task(label, index, ended)
        self._save("task", {"stage": index + 1, "seconds": 0.0, **self.records.meta()})
        self._before = 0.0

    def _complete(self, label: str, task: Task) -> None:
        """What is left to train: short, with no checkpoints: killed, it is done anew, as ``end_task`` is."""
        phase = self.learner.completion(task)
        if phase is None:
            return
        self.progress.stage(f"{label}  {phase.key[-1]}")
        fit = Fit(self.fabric, phase, self.experiment, FitState(), lambda _: None, self.progress, self.folder.advice)
        fit.run(functools.partial(self._record_epoch, label, phase))
        phase.trainable.requires_grad_(False)
        distributed.share_state(self.learner)

    def _begin(self, task: Task) -> tuple[list[Phase], int, FitState]:
        """Call ``begin_task``; what to train, and from where if the run was killed inside this task."""
        torch.manual_seed(derive(self.experiment.seed, "begin", task.id))
        data = self.learner.begin_task(task)
        number, state = 0, FitState()
        if self._inside is not None:
            load_inside(self.learner, self._inside)
            meta = self._inside.manifest()["meta"]
            number = meta["phase"]
            state = FitState.from_meta(meta["fit"], _best(self._inside), self._inside.optimiser())
            self._inside = None
        place(self.learner, self.experiment, self.fabric.device)
        first = self.learner.preparation(task)
        phases = [first] if first else []
        return [*phases, task_phase(self.learner, task, data, self.experiment)], number, state

    def _keep_picture(self, phase: Phase) -> None:
        if self.first and phase.preview is not None:
            name = "-".join(str(part) for part in reversed(phase.key))
            self.folder.write_picture(name, phase.preview().cpu())

    # -- records -----------------------------------------------------------------------------------------------------

    def _record_epoch(self, label: str, phase: Phase, record: dict[str, Any]) -> None:
        self.records.append(record)
        self._keep_picture(phase)
        name = "" if record["event"] == "epoch" else f"{record['event']}  "
        losses = "  ".join(f"{key} {value:.4f}" for key, value in record["losses"].items())
        judged = f"held-out accuracy {record['val_accuracy']:.4f}  " if "val_accuracy" in record else ""
        self.progress.log(
            f"{label}  {name}epoch {record['epoch'] + 1}/{phase.epochs}  {losses}  {judged}{record['seconds']:.1f} s"
        )

    def _record_task(self, label: str, index: int, state: FitState) -> None:
        ends = [r for r in self.records.read() if r["event"] == "task"]
        last = index == len(self.stages) - 1
        record = {
            "event": "task",
            "task": index,
            "seconds": self._seconds(),
            "threads": torch.get_num_threads(),
            "device": self.fabric.device.type,
            "best_epoch": state.best_epoch,
            **outcome(self.learner, self.scenario, ends, index, last, self.experiment.seed, self.features),
        }
        self.records.append(record)
        sample = self.learner.memory.shown() if self.learner.memory is not None else None
        if self.first and sample is not None:
            self.folder.write_picture("memory", sample.cpu())
        for line in in_words(record, report_of(self.learner).warnings):
            self.progress.log(f"{label}  {line}")

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._clock

    def _save_fit(self, number: int, phase: Phase, before: int, state: FitState) -> None:
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
