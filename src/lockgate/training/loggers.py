"""Loggers: callbacks that ``runtime.loggers`` names, for those who watch runs elsewhere. Imported when asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from lockgate.config import Experiment
from lockgate.errors import ConfigError, LockgateError
from lockgate.registry import Entry, Registry
from lockgate.training.callbacks import Callback


class Logger(Callback):
    """Turns records into named numbers over epochs and tasks; sub-classes send them."""

    module: ClassVar[str]
    """What must be installed."""
    extra: ClassVar[str]
    """What brings it."""

    def __init__(self) -> None:
        self.epochs = 1
        self.backend()  # so that its absence is known before anything is trained

    @classmethod
    def backend(cls) -> Any:
        """The package that is logged to, or an error that says how to get it."""
        try:
            return importlib.import_module(cls.module)
        except ImportError as error:
            raise LockgateError(
                f"The logger {cls.__name__} needs a package that is not installed ({error}). "
                f"Bring it with `pip install '{cls.extra}'`, or leave it out of runtime.loggers."
            ) from error

    def on_run_start(self, experiment: Experiment) -> None:
        """Remember how many epochs a task has, and open."""
        self.epochs = experiment.epochs
        self.open(experiment)

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        """Log losses, held-out accuracy and learning rate."""
        self.write([(name, value, step) for name, value, step in scalars(record, self.epochs)], "epoch")

    def on_task_end(self, record: dict[str, Any]) -> None:
        """Log test accuracy and filters in use."""
        self.write([(name, value, step) for name, value, step in scalars(record, self.epochs)], "tasks learnt")

    def open(self, experiment: Experiment) -> None:
        """Begin."""
        raise NotImplementedError

    def write(self, values: list[tuple[str, float, int]], axis: str) -> None:
        """Log values: name, number, and step along ``axis``."""
        raise NotImplementedError


class TensorBoard(Logger):
    """Writes for TensorBoard, to ``folder``; a resumed run writes some numbers again, and the later ones count."""

    module, extra = "torch.utils.tensorboard", "lockgate[tensorboard]"

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self.folder = Path(folder)

    @classmethod
    def for_run(cls, folder: Path) -> Callback:
        """To ``tensorboard/`` in the run folder."""
        return cls(folder / "tensorboard")

    def open(self, experiment: Experiment) -> None:
        """Make the writer."""
        self._writer = self.backend().SummaryWriter(str(self.folder))

    def write(self, values: list[tuple[str, float, int]], axis: str) -> None:
        """Each number by its step."""
        for name, value, step in values:
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def on_run_end(self, summary: dict[str, Any]) -> None:
        """Close the file."""
        self._writer.close()


class Tracker(Logger):
    """What Weights & Biases and trackio have in common: ``init``, ``log``, ``finish``."""

    def __init__(self, project: str = "lockgate", name: str | None = None, **settings: Any) -> None:
        super().__init__()
        self.project, self.name, self.settings = project, name, settings

    @classmethod
    def for_run(cls, folder: Path) -> Callback:
        """Called like the run folder."""
        return cls(name=folder.absolute().name)

    def open(self, experiment: Experiment) -> None:
        """Begin a run there, or go on with it."""
        described: dict[str, Any] = {"project": self.project, "name": self.name, "config": experiment.to_dict()}
        self._run = self.backend().init(**{**described, "resume": "allow", **self.settings})

    def write(self, values: list[tuple[str, float, int]], axis: str) -> None:
        """The numbers of a record at once, with where it stands: steps of theirs only grow, a resumed run's do not."""
        if values:
            self._run.log({**{name: value for name, value, _ in values}, axis: values[0][2]})

    def on_run_end(self, summary: dict[str, Any]) -> None:
        """Finish the run there."""
        self._run.finish()


class Trackio(Tracker):
    """Logs to trackio, on this machine."""

    module, extra = "trackio", "lockgate[trackio]"


class Wandb(Tracker):
    """Logs to Weights & Biases; ``settings`` go to ``wandb.init``."""

    module, extra = "wandb", "lockgate[wandb]"

    def open(self, experiment: Experiment) -> None:
        """As above; a run is told by its ``id`` there, so that a resumed one goes on."""
        if self.name is not None:
            self.settings.setdefault("id", self.name)
        super().open(experiment)
        self._run.define_metric("*", step_metric="epoch")
        for group in ("task_incremental/*", "class_incremental/*", "filters used/*"):
            self._run.define_metric(group, step_metric="tasks learnt")


def scalars(record: dict[str, Any], epochs: int) -> Iterator[tuple[str, float, int]]:
    """Name, value and step of everything in a record that can be drawn over time."""
    if record["event"] == "task":
        after = record["task"] + 1
        for kind in ("task_incremental", "class_incremental"):
            row = record[kind]
            if row:
                yield f"{kind}/average", sum(row) / len(row), after
                yield from ((f"{kind}/task {j + 1}", value, after) for j, value in enumerate(row))
        for entry in record["capacity"]:
            yield f"filters used/{entry['layer']}", entry["used"], after
        return
    step = record["task"] * epochs + record["epoch"]
    where = "task" if record["event"] == "epoch" else record["event"]
    for name, value in record["losses"].items():
        yield f"{where}/loss {name}", value, step
    for name in ("val_accuracy", "val_objective", "lr"):
        if name in record:
            yield f"{where}/{name}", record[name], step


LOGGERS: Registry[type[Callback]] = Registry(
    "logger",
    {
        "tensorboard": Entry(f"{__name__}:TensorBoard", "To `tensorboard/` in the run folder."),
        "trackio": Entry(f"{__name__}:Trackio", "To trackio, on this machine."),
        "wandb": Entry(f"{__name__}:Wandb", "To Weights & Biases."),
    },
    group="lockgate.loggers",
    check=f"{__name__}:logger_problems",
)


def logger_problems(found: object) -> list[str]:
    """What keeps an object from being a logger."""
    if isinstance(found, type) and issubclass(found, Callback):
        return []
    return [f"must be a sub-class of lockgate.Callback. Got {type(found).__name__} instead."]


def make_loggers(names: Sequence[str], folder: Path) -> list[Callback]:
    """The loggers that ``runtime.loggers`` names, for a run in ``folder``."""
    problems = [f"'runtime.loggers': {problem}" for name in names for problem in LOGGERS.problems(name)]
    if problems:
        raise ConfigError(problems)
    return [LOGGERS[name].for_run(folder) for name in names]
