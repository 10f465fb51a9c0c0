"""``Result``: a run, finished or not, as one object. Nothing is loaded before it is asked for."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lockgate.app.numbers import RunNumbers
from lockgate.app.trained import Trained, open_trained
from lockgate.data.task_images import as_pixels
from lockgate.errors import DataError
from lockgate.methods.base import Method
from lockgate.runs.objects import NOTHING, Objects
from lockgate.training.device import threads


class Result(RunNumbers):
    """What a run has come to, and what it answers. Made by ``lockgate.run``, ``resume`` and ``load``.

    A run that is not finished has what its ended tasks came to; before the first has ended, numbers are None or empty.
    """

    def __init__(self, path: Path, objects: Objects = NOTHING) -> None:
        super().__init__(path)
        self._objects = objects

    @functools.cached_property
    def _trained(self) -> Trained:
        with threads(0):  # as many as before, afterwards
            return open_trained(self.path, self._objects)

    @property
    def method(self) -> Method:
        """The learner as its newest ended task left it, in evaluation mode."""
        return self._trained.learner

    @property
    def classes(self) -> npt.NDArray[Any]:
        """All classes learnt so far, in the columns' order of ``predict_proba``; numbers if all names are such."""
        names = self._trained.class_names
        whole = all(name.isdecimal() and str(int(name)) == name for name in names)
        return np.array([int(name) for name in names] if whole else names)

    def predict(self, x: npt.NDArray[Any] | Tensor, task: int | str | None = None) -> npt.NDArray[Any]:
        """The class of each image, (N,), one of ``classes``; images as ``predict_proba`` takes them."""
        found: npt.NDArray[Any] = self.classes[self.predict_proba(x, task).argmax(1)]
        return found

    def predict_proba(self, x: npt.NDArray[Any] | Tensor, task: int | str | None = None) -> npt.NDArray[np.float32]:
        """The probability of each of ``classes``, (N, classes); zero outside ``task``, if one is given.

        ``x`` is (N, H, W), (N, H, W, C) or (N, C, H, W), uint8 or floats in [0, 1], of the size that was learnt.
        """
        pixels = as_pixels(x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x))
        images = torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))  # (N, C, H, W)
        wanted = self.method.image_shape
        if tuple(images.shape[1:]) != tuple(wanted):
            raise DataError(f"Images are {tuple(images.shape[1:])}; wanted {tuple(wanted)} (C, H, W). Resize them.")
        number = None if task is None else self._trained.task_id(task)
        with threads(self.experiment.runtime.threads):
            found: npt.NDArray[np.float32] = self._trained.probabilities(images, number).numpy()
        return found
