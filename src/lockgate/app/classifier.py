"""A model that grows, in the manner of scikit-learn: learn one task after another, predict with or without the task."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from lockgate.app.auto_config import Memory, UserSettings
from lockgate.app.learn import PROBES, learn
from lockgate.app.model_dir import Model, ModelFolder, is_model, read_model
from lockgate.app.trained import Trained, trained_model
from lockgate.data.task_images import ArrayImages, as_pixels, fitted
from lockgate.errors import CheckpointError, DataError, RunFolderError
from lockgate.runs.checkpoint import Checkpoint
from lockgate.training.device import threads

Images = npt.ArrayLike | Tensor
"""(N, H, W), (N, H, W, C) or (N, C, H, W); bytes, or floats in [0, 1]."""
Labels = npt.ArrayLike | Tensor


class ContinualClassifier:
    """Learns tasks as they come and never changes an old answer.

    Built on the same folder as ``lockgate learn``: with ``path`` every lesson is safe on disk as soon as it ends, and
    the command line can use it; without, the model lives in a temporary folder until it is saved.

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
    ``epochs``, ``batch_size`` and ``device`` are fixed by the first lesson.

    What is promised is what ``docs/exactness.md`` says: with the task given, probabilities of a task's classes stay
    bit-equal; without, they may move, because the choice of the task goes on learning.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        memory: Memory | None = None,
        keep: int | None = None,
        size: int | None = None,
        backbone: str | None = None,
        width: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        device: str | None = None,
        seed: int | None = None,
        probes: int = PROBES,
        options: Mapping[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        self.settings = UserSettings(
            memory=memory,
            size=size,
            backbone=backbone,
            width=width,
            keep=keep,
            seed=seed,
            options=options or {},
            epochs=epochs,
            batch_size=batch_size,
            device=device,
        )
        self.probes, self.verbose = probes, verbose
        if path is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="lockgate-")  # gone with this object
            path = Path(self._temporary.name) / "model"
        self.path = Path(path)
        self._open()

    # -- learning ----------------------------------------------------------------------------------------------------

    def learn(self, images: Images | Dataset[Any], labels: Labels | None = None, name: str = "") -> ContinualClassifier:
        """Learn the task ``name`` ("task N" if nothing is said); returns itself.

        ``labels`` are whole numbers or text, one an image; with a torch ``Dataset`` of pairs they are part of it. A
        call that was interrupted leaves the model as it was, and goes on where it stood when it is made again.
        """
        task_images = ArrayImages(*_pairs(images, labels))
        name = name or f"task {len(self.tasks) + 1}"
        with threads(0):
            learn(
                self.path,
                task_images,
                name,
                self.settings,
                self.probes,
                "ContinualClassifier",
                self._log,
                not self.verbose,
            )
        self._open()
        return self

    # -- answering ---------------------------------------------------------------------------------------------------

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks learnt so far."""
        return self._trained.tasks if self._trained else ()

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """All classes learnt so far, in the columns' order of ``predict_proba``.

        Whole numbers as long as all tasks were given them; text, all of it, from the first task with text on.
        """
        model, trained = self._known()
        if all(task.integers for task in model.tasks):
            return np.array([int(name) for name in trained.class_names])
        return np.array(trained.class_names)

    def predict(self, images: Images, task: str | int | None = None) -> npt.NDArray[Any]:
        """The class of each image (N,), among those of ``task`` or, without one, of all tasks."""
        found: npt.NDArray[Any] = self.classes_[self.predict_proba(images, task).argmax(1)]
        return found

    def predict_proba(self, images: Images, task: str | int | None = None) -> npt.NDArray[np.float32]:
        """The probability of each class for each image, (N, classes); zero outside ``task``, if one is given."""
        model, trained = self._known()
        x = torch.from_numpy(fitted(as_pixels(_array(images)), trained.image_size, trained.greyscale))
        with threads(model.experiment.runtime.threads):
            found: npt.NDArray[np.float32] = trained.probabilities(
                x, None if task is None else trained.task_id(task)
            ).numpy()
        return found

    def predict_task(self, images: Images) -> npt.NDArray[np.str_]:
        """The name of the task of each image (N,): the one whose classes are the most probable together."""
        _, trained = self._known()
        owners = np.array(trained.owners)
        found = self.predict_proba(images)
        by_task = np.stack([found[:, owners == task].sum(1) for task in range(len(trained.tasks))], axis=1)
        names: npt.NDArray[np.str_] = np.array(trained.tasks)[by_task.argmax(1)]
        return names

    def score(
        self, images: Images | Dataset[Any], labels: Labels | None = None, task: str | int | None = None
    ) -> float:
        """The share of images whose class is found. Labels are what ``learn`` takes; 7 and "7" are the same class."""
        task_images = ArrayImages(*_pairs(images, labels))
        # As text, in which classes are kept: they become text when a task with text joins those with numbers.
        wanted = np.array(task_images.classes)[task_images.y]
        return float((self.predict(task_images.x, task).astype(str) == wanted).mean())

    # -- keeping -----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Copy the model to a new folder ``path``, which is there whole or not at all.

        The copy is what the newest finished task left; of a lesson that another process is at, nothing is copied.
        """
        self._known()
        target = Path(path)
        if target.exists():
            raise RunFolderError(
                f"{target} exists already; choose another path, or make the model there to begin with."
            )
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            partial.mkdir(parents=True)
            _copy(read_model(self.path), ModelFolder(partial))
            os.rename(partial, target)
        except OSError as error:
            raise RunFolderError(
                f"Cannot copy {self.path} to {target}: {error}. Nothing is left there; make room or choose a folder "
                "you own, then save again."
            ) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str], **settings: Any) -> ContinualClassifier:
        """The model in ``path``, made here or by ``lockgate learn``; further lessons go there."""
        if not is_model(Path(path)):
            raise RunFolderError(f"{path} is not a model: it has no model.yaml. Make one with `learn`.")
        return cls(path, **settings)

    def _open(self) -> None:
        """Read the model anew; one whose first lesson was stopped has learnt nothing."""
        self._model: Model | None = None
        self._trained: Trained | None = None
        if is_model(self.path) and ModelFolder(self.path).end() is not None:
            model = read_model(self.path)  # once: another process may end a lesson at any time
            with threads(0):  # as many as before, afterwards
                self._model, self._trained = model, trained_model(model)

    def _known(self) -> tuple[Model, Trained]:
        if self._model is None or self._trained is None:
            raise CheckpointError("The model has not learnt anything yet; call `learn` first.")
        return self._model, self._trained

    def _log(self, line: str) -> None:
        if self.verbose:
            print(line)


def _copy(model: Model, target: ModelFolder) -> None:
    """Copy what the newest end of a task needs; the records up to it never change, whatever is learnt meanwhile."""
    model.records()  # raises if they are not what they were
    length: int = model.end.manifest()["meta"]["records"]
    shutil.copy(model.folder.config, target.config)
    with model.folder.records.open("rb") as file:
        target.records.write_bytes(file.read(length))
    copied = Checkpoint(target.checkpoints / model.end.path.name)
    shutil.copytree(model.end.path, copied.path)
    copied.manifest()  # raises if files went away meanwhile: two more lessons have ended


def _pairs(images: Images | Dataset[Any], labels: Labels | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    if isinstance(images, Dataset):
        if labels is not None:
            raise DataError("A Dataset holds its own labels; leave `labels` out.")
        # One that can only be run through has no length.
        pairs = list(images) if isinstance(images, IterableDataset) else [images[i] for i in range(len(images))]  # type: ignore[arg-type]
        if not pairs:
            raise DataError("The Dataset is empty; wanted pairs of an image and its label.")
        return _array([_array(x) for x, _ in pairs]), np.array([_plain(y) for _, y in pairs])
    if labels is None:
        raise DataError("Images were given without labels; wanted a label for each.")
    return _array(images), _array(labels)


def _array(values: Any) -> npt.NDArray[Any]:
    try:
        return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except ValueError as error:
        raise DataError(
            f"Images or labels differ in shape ({error}); wanted one array. Bring them to one size."
        ) from error


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, (Tensor, np.generic)) else label
