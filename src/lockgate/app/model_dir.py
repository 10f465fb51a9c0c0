"""A model that grows: a folder like a run's, in which tasks come one at a time.

    model.yaml  records.jsonl  checkpoints/  .lock

What the model is stands in its newest end of a task: the learner, the names of its tasks and classes, and the probes
(a few test images of each task, to prove later that answers have not changed) are one checkpoint, there whole or not at
all. A task that was stopped leaves checkpoints of its middle behind. Nothing but the same task, given again, looks at
them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lockgate.config import Experiment
from lockgate.data.arrays import Arrays
from lockgate.errors import CheckpointError, RunFolderError
from lockgate.methods import METHODS
from lockgate.methods.base import Method
from lockgate.runs import checkpoint
from lockgate.runs.build import build_learner, validated
from lockgate.runs.checkpoint import Checkpoint
from lockgate.runs.directory import MODEL_CONFIG, RunFolder, empty
from lockgate.runs.given import Given
from lockgate.runs.loading import load_end
from lockgate.runs.log import read_ends
from lockgate.runs.process import ExtraState, Run
from lockgate.scenario.incremental import grow, past_tasks
from lockgate.training.device import make_fabric, prepare_process
from lockgate.types import Examples, State, Task

PARTS = ("x", "y", "task")  # of ``Examples``


class ModelFolder(RunFolder):
    """A folder that holds a model, or will."""

    config_name = MODEL_CONFIG
    what = "model"
    beginning = "lockgate learn"

    @property
    def remedy(self) -> str:
        """How to go on after work in the folder has been stopped."""
        return "call `lockgate learn` again as before"

    @property
    def advice(self) -> str:
        """What to do when training has diverged."""
        return "Look for broken images, or give the task another number of epochs or batch size: it begins anew then."

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder if need be and hold it for this process; one in which nothing came to be is gone after."""
        if (self.path / RunFolder.config_name).exists():
            raise RunFolderError(f"{self.path} holds a run, whose tasks are fixed; a model needs a folder of its own.")
        made = not self.path.exists()
        if not made and not self.config.exists() and not empty(self.path):
            raise RunFolderError(f"{self.path} is not empty and not a model; choose another place for the model.")
        outer = next((path for path in self.path.absolute().parents if is_model(path)), None)
        if outer is not None and not self.config.exists():
            raise RunFolderError(f"{self.path} is inside the model {outer}; choose another place for the model.")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"Cannot make {self.path}: {error.strerror}. Choose a folder you own.") from error
        with self.lock():
            try:
                yield
            finally:
                if made and not self.checkpoints.exists():
                    shutil.rmtree(self.path)

    def end(self) -> Checkpoint | None:
        """The newest end of a task."""
        return checkpoint.newest_end(self.checkpoints)

    def drop_unfinished(self) -> None:
        """Remove what is left of tasks that did not come to their end, or that did and need it no more."""
        checkpoint.drop_partial(self.checkpoints)
        for point in checkpoint.found(self.checkpoints):
            if point.kind == "fit":
                shutil.rmtree(point.path)


@dataclass(frozen=True)
class TaskInfo:
    """A task that a model knows."""

    name: str
    classes: tuple[str, ...]
    integers: bool
    """Whether the classes were given as whole numbers."""
    images: tuple[int, ...]
    """How many images of each class were brought."""


@dataclass(frozen=True)
class Model:
    """What stands in a model folder."""

    folder: ModelFolder
    experiment: Experiment
    end: Checkpoint
    tasks: tuple[TaskInfo, ...]

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of the images it works on."""
        return image_shape(self.experiment)

    def learner(self) -> Method:
        """The learner as its newest task left it, in evaluation mode on the CPU."""
        learner = build_learner(self.experiment, self.image_shape, weights=False)
        load_end(learner, self.end, self.experiment)
        return learner.eval()

    def probes(self) -> list[tuple[tuple[str, ...], Examples]]:
        """For every task, the names of its classes and its probes."""
        state = self.end.tensors("probes")
        if state is None:
            raise CheckpointError(f"{self.end.path} is gone, or its probes are; another process may have replaced it.")
        parts = (Examples(*(state[f"{t}.{part}"] for part in PARTS)) for t in range(len(self.tasks)))
        return [(task.classes, kept) for task, kept in zip(self.tasks, parts, strict=True)]

    def probed(self) -> tuple[Task, ...]:
        """The tasks, each with its probes as test images."""
        return past_tasks(self.probes())

    def records(self) -> list[dict[str, Any]]:
        """The record of every task; one of a task that was not finished does not count."""
        return read_ends(self.folder.records, self.end.manifest()["meta"])


def is_model(path: Path) -> bool:
    """Whether ``path`` is a model folder."""
    return ModelFolder(path).config.is_file()


def require_model(path: Path) -> None:
    """Raise unless ``path`` is a model folder."""
    if is_model(path):
        return
    if (path / RunFolder.config_name).is_file():
        raise RunFolderError(f"{path} is a run, and this is for models, which `lockgate learn` makes.")
    what = "holds no model: there is no model.yaml in it" if path.exists() else "does not exist"
    raise RunFolderError(f"{path} {what}. Give the folder of a model, or make one with `lockgate learn`.")


def require_trained(path: Path) -> None:
    """Raise unless ``path`` is a model or a run."""
    if not is_model(path) and not RunFolder(path).config.is_file():
        what = "holds neither a model nor a run" if path.exists() else "does not exist"
        raise RunFolderError(
            f"{path} {what}. Give the folder of a model (`lockgate learn` makes one) or of a run (`lockgate run`)."
        )


def read_model(path: Path) -> Model:
    """The model in ``path``, its files checked against their checksums."""
    require_model(path)
    folder = ModelFolder(path)
    experiment = validated(folder.experiment())
    end = folder.end()
    if end is None:
        raise CheckpointError(f"{path} has not learnt a task yet; {folder.remedy}, and let it end.")
    tasks = end.manifest()["meta"]["model"]["tasks"]
    return Model(folder, experiment, end, tuple(_known(entry) for entry in tasks))


def image_shape(experiment: Experiment) -> tuple[int, int, int]:
    """(C, H, W) of the images a model with this description works on."""
    size = experiment.data.image_size
    return (1 if experiment.data.greyscale else 3), size, size


def learn_task(
    model: Model | None,
    folder: ModelFolder,
    experiment: Experiment,
    data: Arrays,
    new: TaskInfo,
    probes: int,
    quiet: bool,
    log: Callable[[str], None] = lambda _: None,
) -> None:
    """Learn one more task, in a folder that this process holds; ``log`` hears if it goes on where it was stopped.

    ``experiment`` is the model's own, with this task's schedule. A task that was stopped goes on where it stood if it
    is the same to the last pixel; any other drops what was left of it.
    """
    before = model.probes() if model else []
    scenario = grow(before, data, new.classes, experiment.scenario.held_out, probes, experiment.seed)
    digest = _digest(experiment, data, new, probes)
    kept = [*(examples for _, examples in before), scenario.tasks[-1].audit_images]
    tasks = [*(model.tasks if model else ()), new]
    extra_state = ExtraState(
        {"model": {"tasks": [asdict(task) for task in tasks], "digest": digest}}, {"probes": _flat(kept)}
    )
    start = _start(folder, digest)
    if start is not None and start.kind == "fit":
        meta = start.manifest()["meta"]
        epoch, seconds = meta["fit"]["epoch"] + 1, meta["seconds"]
        log(f"  resumed: this task was stopped in epoch {epoch}, after {seconds:.0f} s, and goes on from there")
    fabric = make_fabric(experiment, trains=not METHODS[experiment.method].closed_form)
    tuned = prepare_process(experiment)
    Run(fabric, experiment, scenario, folder, start, extra_state, Given(quiet=quiet)).go(tuned)
    folder.drop_unfinished()


def _start(folder: ModelFolder, digest: str) -> Checkpoint | None:
    """Where the task goes on: inside it if it was stopped there, else at the end of the task before."""
    points = checkpoint.found(folder.checkpoints)
    if points and points[-1].kind == "fit":
        try:
            if points[-1].manifest()["meta"]["model"].get("digest") == digest:
                return points[-1]
        except CheckpointError:
            pass  # half a task is not worth an error: it begins anew
    folder.drop_unfinished()
    return folder.end()


def _flat(kept: list[Examples]) -> State:
    return {f"{t}.{part}": getattr(examples, part) for t, examples in enumerate(kept) for part in PARTS}


def _known(entry: dict[str, Any]) -> TaskInfo:
    return TaskInfo(entry["name"], tuple(entry["classes"]), entry["integers"], tuple(entry["images"]))


def _digest(experiment: Experiment, data: Arrays, new: TaskInfo, probes: int) -> str:
    """SHA-256 of everything that decides what a task comes to."""
    description = {**experiment.to_dict(), "runtime": None, "task": asdict(new), "probes": probes}
    sha = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    sha.update(data.x.reshape(-1).data)
    sha.update(data.y.tobytes())
    return sha.hexdigest()
