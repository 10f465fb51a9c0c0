"""What scikit-learn and Python ask of an estimator, for one whose state is a model folder.

| | what it does |
|---|---|
| ``get_params``, ``set_params`` | scikit-learn's own; parameters are looked at when they are needed |
| ``clone`` | same parameters, nothing learnt; ``path`` is left out, for at that path lives the model cloned |
| ``pickle``, path given | the path and the parameters; refused on loading if the tasks are not there |
| ``pickle``, temporary | the files too: what comes back from a worker process (joblib) would be lost otherwise |
| ``copy.deepcopy`` | the same model in a temporary folder of its own, so that either can learn on |
"""

from __future__ import annotations

import copy
import inspect
import os
from abc import abstractmethod
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin
from torch.utils.data import Dataset

from lockgate.app.copying import pack
from lockgate.app.learn import refuse_lost_tasks
from lockgate.app.open_model import OpenModel
from lockgate.errors import ConfigError, LockgateError, RunFolderError
from lockgate.scenario.inputs import Images, Labels

CARRIED = "_carried"
"""Key in a pickle: the tasks learnt, and the files of a temporary model."""


class Estimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with a parameter ``path``, which learns one task after another in the folder there."""

    path: str | os.PathLike[str] | None
    _opened: OpenModel | None = None

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks learnt so far."""
        fresh = self._opened is None and self.path is None
        return () if fresh else self._open().tasks

    @abstractmethod
    def learn(self, images: Images | Dataset[Any], labels: Labels | None = None, name: str = "") -> Self:
        """Learn one more task."""

    def partial_fit(self, X: Images | Dataset[Any], y: Labels | None = None, name: str = "") -> Self:
        """Another name of ``learn``: one call, one task, whose classes must be new."""
        return self.learn(X, y, name)

    def fit(self, X: Images | Dataset[Any], y: Labels | None = None) -> Self:
        """Learn a first task: for scikit-learn's tools, which fit clones. Refused by a model that knows tasks."""
        tasks = self.tasks
        if tasks:
            raise RunFolderError(
                f"`fit` begins with nothing, and this model knows {_names('task', tasks)}, which it never forgets. "
                "Teach it one more task with `learn` or `partial_fit`; `sklearn.base.clone(model)` gives a model that "
                "has learnt nothing."
            )
        return self.learn(X, y)

    def _open(self) -> OpenModel:
        """The model folder, opened when first needed."""
        opened = self._opened
        if opened is not None and opened.tasks and opened.given != self.path:
            raise ConfigError(
                [
                    f"'path' must stay {opened.given!r}, where the model lives. Got {self.path!r} instead; copy the "
                    "model with `save`, or open the other one with `ContinualClassifier.load`."
                ]
            )
        if opened is None or opened.given != self.path:
            self._opened = opened = OpenModel(self.path)
        return opened

    # -- scikit-learn ------------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.tasks)

    def __sklearn_clone__(self) -> Self:
        made: Self = super().__sklearn_clone__()
        made.path = None
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = False, True  # images, not rows of features
        return tags

    def __repr__(self) -> str:
        known = inspect.signature(type(self)).parameters
        params = {name: repr(getattr(self, name)) for name in known}
        said = (f"{name}={value}" for name, value in params.items() if value != repr(known[name].default))
        made = f"{type(self).__name__}({', '.join(said)})"
        if self._opened is None and self.path is None:
            return f"{made}: nothing learnt yet"
        try:
            opened = self._open()
        except LockgateError as error:
            return f"{made}: cannot be opened ({error})"
        where = "a temporary folder (`save` keeps it)" if self.path is None else str(opened.path)
        if not opened.tasks:
            return f"{made}: nothing learnt yet, in {where}"
        classes = len(opened.known()[1].class_names)
        return f"{made}: {_names('task', opened.tasks)}, {classes} classes, in {where}"

    # -- copies ------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "_opened"}
        if isinstance(self.path, (str, os.PathLike)):
            state["path"] = str(self._open().path)  # another process may stand in another directory
        opened = self._opened
        if opened is not None and opened.tasks:
            opened.require()
            state[CARRIED] = {"tasks": opened.tasks, "files": pack(opened.path) if self.path is None else None}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        carried = state.pop(CARRIED, None)
        self.__dict__.update(state)
        if carried is None:
            return
        if carried["files"] is not None:
            self._opened = OpenModel.of_files(carried["files"])
            return
        assert self.path is not None, "a temporary model carries its files"
        self._opened = OpenModel(self.path)
        refuse_lost_tasks(self._opened.path, carried["tasks"], self._opened.tasks)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for name, value in vars(self).items():
            if name != "_opened":
                setattr(made, name, copy.deepcopy(value, memo))
        if self.tasks:
            made.path, made._opened = None, self._open().copy()
        return made


def _names(what: str, names: tuple[str, ...], most: int = 8) -> str:
    some = ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")
    return f"{len(names)} {what}{'' if len(names) == 1 else 's'} ({some})"
