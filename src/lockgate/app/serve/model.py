"""A model that answers one image at a time, and is read again when it has gained a task."""

from __future__ import annotations

import base64
import contextlib
import io
import threading
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from lockgate.app.trained import Trained, open_trained
from lockgate.data.images import Pixels, decode_image
from lockgate.errors import LockgateError
from lockgate.evaluation.gates import open_gates
from lockgate.runs.checkpoint import newest_end
from lockgate.runs.directory import RunFolder


class ServedModel:
    """Answers for the model in ``path``; safe to call from many threads, one at a time does the work."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._end = self._newest()  # first: a task that ends while the model is opened must look new
        self._trained = open_trained(path)

    def about(self) -> dict[str, Any]:
        """What the model knows."""
        with self._lock:
            trained = self._current()
        tasks = [{"name": name, "classes": names} for name, names in zip(trained.tasks, trained.classes, strict=True)]
        return {
            "name": self.path.resolve().name,
            "tasks": tasks,
            "image_shape": trained.learner.image_shape,
            "finds_task": trained.learner.class_incremental or len(tasks) == 1,
        }

    def answer(self, data: bytes, task: str | None, top: int) -> dict[str, Any]:
        """What the bytes of an image file show, what the model saw of them, and which gates opened."""
        with self._lock:  # decoding too: one large image at a time
            trained = self._current()
            known = None if task is None else trained.task_id(task)
            pixels = decode_image(data, "What was sent", trained.image_size, trained.greyscale)
            x = torch.from_numpy(pixels.copy())[None]
            answers = trained.ask(x, known, top)[0]
            gates = open_gates(trained.learner, x, trained.tasks.index(answers[0].task))
        return {"answers": [answer.to_dict() for answer in answers], "gates": gates, "seen": _data_uri(pixels)}

    def _current(self) -> Trained:
        """The model as it is on disk now; as it was, if it cannot be read at the moment."""
        newest = self._newest()
        if newest != self._end:
            with contextlib.suppress(LockgateError, OSError):  # the next question tries again
                self._trained, self._end = open_trained(self.path), newest
        return self._trained

    def _newest(self) -> str | None:
        end = newest_end(RunFolder(self.path).checkpoints)
        return end.path.name if end else None


def _data_uri(pixels: Pixels) -> str:
    file = io.BytesIO()
    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(file, format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
