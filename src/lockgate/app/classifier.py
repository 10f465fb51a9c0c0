"""A model that grows, in the manner of scikit-learn: learn one task after another, predict with or without the task."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset

from lockgate.app.copying import save_copy
from lockgate.app.estimator import Estimator
from lockgate.app.learn import PROBES, learn
from lockgate.app.model_dir import is_model
from lockgate.app.open_model import OpenModel
from lockgate.app.undo import undo
from lockgate.app.user_settings import AugmentKind, MemoryKind, UserSettings, settings_of
from lockgate.data.task_images import ArrayImages, as_pixels, fitted
from lockgate.errors import ConfigError, DataError, RunFolderError
from lockgate.scenario.inputs import Images, Labels, as_array, labelled
from lockgate.training.device import threads


class ContinualClassifier(Estimator):
    """Learns tasks as they come and never changes an old answer.

    Built on the same folder as ``lockgate learn``: with ``path`` every task is safe on disk as soon as it is learnt,
    and the command line can use it; without, the model lives in a temporary folder until it is saved.

    Examples:
        >>> import numpy as np
        >>> from lockgate import ContinualClassifier
        >>> rng = np.random.default_rng(0)
        >>> labels = np.repeat([0, 1], 30)
        >>> images = rng.integers(0, 50, (60, 8, 8), dtype=np.uint8)
        >>> images[labels == 1, :4] += 200  # class 1 is bright above
        >>> model = ContinualClassifier(width=8, epochs=10, verbose=False).learn(images, labels, name="first")
        >>> model.predict(images[[0, 59]]).tolist()
        [0, 1]
        >>> model.predict_task(images[:1]).tolist()
        ['first']

    Arguments that are None are chosen from the first images (``lockgate.app.auto_config`` says how). All but
    ``epochs``, ``batch_size``, ``device``, ``lr``, ``patience`` and ``augment`` are fixed by the first task. As
    everywhere in scikit-learn, the constructor only stores them: what is wrong with one is said when it is needed.

    What is promised is what ``docs/exactness.md`` says: with the task given, probabilities of a task's classes stay
    bit-equal; without, they may move, because the choice of the task goes on learning. How far scikit-learn's tools
    work with it: ``docs/sklearn.md``.

    Args:
        path: Folder of the model, there already or not; None: a temporary one.
        memory: What it keeps to find the task: ``episodic`` (images), ``generative`` (generators) or ``none``.
        keep: Images that an episodic memory keeps, of all tasks together.
        size: Side in pixels that images are resized to.
        backbone: The network, as ``--network`` takes it; ``none``: one that begins from scratch.
        width: Filters of its first layer.
        epochs: Passes over the images of a task.
        batch_size: Images a step.
        device: ``cpu``, ``cuda`` or ``mps``; None: the best there is.
        seed: Decides everything random: same seed, same bits.
        probes: Test images of a task that are kept, to prove later that answers stayed.
        lr: Learning rate.
        patience: Epochs before gates begin to close.
        augment: How images vary while they are learnt: ``none``, ``move`` or ``flip`` (and moved).
        options: Options of the method, as ``lockgate list METHOD`` explains them.
        verbose: Print what is chosen and how it goes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        memory: MemoryKind | None = None,
        keep: int | None = None,
        size: int | None = None,
        backbone: str | None = None,
        width: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        device: str | None = None,
        seed: int | None = None,
        probes: int = PROBES,
        lr: float | None = None,
        patience: int | None = None,
        augment: AugmentKind | None = None,
        options: Mapping[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        self.path = path
        self.memory = memory
        self.keep = keep
        self.size = size
        self.backbone = backbone
        self.width = width
        self.epochs = epochs
        self.batch_size = batch_size
        self.device = device
        self.seed = seed
        self.probes = probes
        self.lr = lr
        self.patience = patience
        self.augment = augment
        self.options = options
        self.verbose = verbose

    # -- learning ----------------------------------------------------------------------------------------------------

    def learn(self, images: Images | Dataset[Any], labels: Labels | None = None, name: str = "") -> Self:
        """Learn the task ``name`` ("task N" if nothing is said); returns itself.

        ``labels`` are whole numbers or text, one an image; with a torch ``Dataset`` of pairs they are part of it. A
        call that was interrupted leaves the model as it was, and goes on where it stood when it is made again.
        """
        if not isinstance(name, str):
            raise ConfigError([f"'name' must be text. Got {name!r} instead."])
        opened = self._open()
        with threads(0):
            learn(
                opened.path,
                ArrayImages(*labelled(images, labels)),
                name or f"task {len(opened.tasks) + 1}",
                self._settings(),
                self.probes,
                "ContinualClassifier",
                print if self.verbose else _silent,
                quiet=not self.verbose,
                known=opened.tasks,
            )
        opened.read()
        return self

    def undo(self) -> str:
        """Go back to before the last task, for good; returns what was removed, in words. One task, not two in a row.

        The way back also from a folder whose newest files are damaged: ``ContinualClassifier(path).undo()``.
        """
        opened = self._opened or OpenModel(self.path, read=False)
        removed = undo(opened.path).removed
        opened.read()
        self._opened = opened
        return removed

    def _settings(self) -> UserSettings:
        return settings_of(self, {} if self.options is None else self.options)

    # -- what it knows -----------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where the model lives: ``path``, or a temporary folder that is gone with this object."""
        return self._open().path

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """All classes learnt so far, in the columns' order of ``predict_proba``.

        Whole numbers as long as all tasks were given them; text, all of it, from the first task with text on.
        """
        model, trained = self._open().known()
        if all(task.integers for task in model.tasks):
            return np.array([int(name) for name in trained.class_names])
        return np.array(trained.class_names)

    @property
    def image_shape_(self) -> tuple[int, int, int]:
        """(C, H, W) that images are brought to, whatever their own size; fixed by the first task."""
        model, _ = self._open().known()
        return model.image_shape

    # -- answering ---------------------------------------------------------------------------------------------------

    def predict(self, images: Images, task: str | int | None = None, exact: bool = False) -> npt.NDArray[Any]:
        """The class of each image (N,), among those of ``task`` or, without one, of all tasks.

        From 32 images on the compiled form answers, which is faster and agrees up to rounding. With ``exact`` it is
        always the network itself, and that is what is promised never to change.
        """
        found: npt.NDArray[Any] = self.classes_[self.predict_proba(images, task, exact).argmax(1)]
        return found

    def predict_proba(
        self, images: Images, task: str | int | None = None, exact: bool = False
    ) -> npt.NDArray[np.float32]:
        """The probability of each class for each image, (N, classes); zero outside ``task``, if one is given.

        ``exact`` is as in ``predict``.
        """
        model, trained = self._open().known()
        x = torch.from_numpy(fitted(as_pixels(as_array(images)), trained.preprocessing))
        number = None if task is None else trained.task_id(task)
        with threads(model.experiment.runtime.threads):
            form = "exact" if exact else trained.form_for(len(x))
            found: npt.NDArray[np.float32] = trained.probabilities(x, number, form).numpy()
        return found

    def predict_task(self, images: Images) -> npt.NDArray[np.str_]:
        """The name of the task of each image (N,): the one whose classes are the most probable together."""
        _, trained = self._open().known()
        task_of_class = np.array(trained.task_of_class)
        found = self.predict_proba(images)
        by_task = np.stack([found[:, task_of_class == task].sum(1) for task in range(len(trained.tasks))], axis=1)
        names: npt.NDArray[np.str_] = np.array(trained.tasks)[by_task.argmax(1)]
        return names

    def score(self, X: Images | Dataset[Any], y: Labels | None = None, task: str | int | None = None) -> float:
        """The share of images whose class is found. Labels are what ``learn`` takes; 7 and "7" are the same class.

        A label that no task has is refused: it could only count as wrong, and is mostly a slip of the pen.
        """
        _, trained = self._open().known()
        given = ArrayImages(*labelled(X, y))
        unknown = [name for name in given.classes if name not in trained.class_names]
        if unknown:
            raise DataError(
                f"No task has the labels {', '.join(map(repr, unknown))}; wanted some of "
                f"{', '.join(map(repr, trained.class_names))}. Leave these images out, or learn their classes first."
            )
        # As text, in which classes are kept: they become text when a task with text joins those with numbers.
        wanted = np.array(given.classes)[given.y]
        return float((self.predict(given.x, task).astype(str) == wanted).mean())

    # -- keeping -----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Copy the model to a new folder ``path``, which is there whole or not at all.

        The copy is what the newest finished task left; of a task that another process is learning, nothing is copied.
        """
        opened = self._open()
        opened.require()
        return save_copy(opened.path, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str], **settings: Any) -> Self:
        """The model in ``path``, made here or by ``lockgate learn``; further tasks go there."""
        if not is_model(Path(path)):
            raise RunFolderError(f"{path} is not a model: it has no model.yaml. Make one with `learn`.")
        model = cls(path, **settings)
        model._open()  # so that a damaged one is told of here
        return model


def _silent(line: str) -> None:
    pass
