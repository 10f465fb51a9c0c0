"""The folder behind a ``ContinualClassifier``, and what was read from it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

from sklearn.exceptions import NotFittedError

from lockgate.app.copying import copy_files, unpack
from lockgate.app.learn import refuse_lost_tasks
from lockgate.app.model_dir import Model, ModelFolder, is_model, read_model
from lockgate.app.trained import Trained, trained_model
from lockgate.errors import CheckpointError, ConfigError
from lockgate.training.device import threads


class NotLearntError(CheckpointError, NotFittedError):  # type: ignore[misc]
    """A model that knows no task was asked for an answer. scikit-learn's tools catch it as their ``NotFittedError``."""


class OpenModel:
    """One model folder, read once and again after each task; a temporary one is gone with this object."""

    def __init__(self, given: str | os.PathLike[str] | None, read: bool = True) -> None:
        self.given = given
        """What the folder was asked for as."""
        self._model: Model | None = None
        self._trained: Trained | None = None
        if given is None:
            root = Path(tempfile.mkdtemp(prefix="lockgate-"))
            weakref.finalize(self, _remove, root, os.getpid())
            self.path = root / "model"
        elif isinstance(given, (str, os.PathLike)):
            self.path = Path(os.path.abspath(given))  # the process may change its directory later
        else:
            raise ConfigError([f"'path' must be text or a path. Got {given!r} instead."])
        if read:
            self.read()

    @classmethod
    def of_files(cls, files: dict[str, bytes]) -> OpenModel:
        """A temporary model of the files of another."""
        made = cls(None)
        unpack(files, made.path)
        made.read()
        return made

    def copy(self) -> OpenModel:
        """The same model in a temporary folder of its own."""
        self.require()
        made = OpenModel(None)
        made.path.mkdir()
        copy_files(read_model(self.path), ModelFolder(made.path))
        made.read()
        return made

    def read(self) -> None:
        """Read the folder anew; a model whose first task was stopped has learnt nothing."""
        self._model = self._trained = None
        if is_model(self.path) and ModelFolder(self.path).end() is not None:
            model = read_model(self.path)  # once: another process may end a task at any time
            with threads(0):  # as many as before, afterwards
                self._model, self._trained = model, trained_model(model)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks that were read."""
        return self._trained.tasks if self._trained else ()

    def known(self) -> tuple[Model, Trained]:
        """What was read; raises if it has learnt nothing."""
        if self._model is None or self._trained is None:
            raise NotLearntError("The model has not learnt anything yet; call `learn` first.")
        return self._model, self._trained

    def require(self) -> None:
        """Raise if nothing was learnt, or if what was read is no longer in the folder."""
        self.known()
        there = is_model(self.path) and ModelFolder(self.path).end() is not None
        now = [task.name for task in read_model(self.path).tasks] if there else []
        refuse_lost_tasks(self.path, self.tasks, now)


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a forked child has this object too, but not its folder
        shutil.rmtree(folder, ignore_errors=True)
