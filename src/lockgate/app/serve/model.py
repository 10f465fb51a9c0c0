"""A model that answers images, some at a time, and is read again when it has gained a task or lost one."""

from __future__ import annotations

import base64
import contextlib
import io
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from lockgate.app.serve.worker import Question
from lockgate.app.trained import Trained, open_trained
from lockgate.data.images import decode_image
from lockgate.data.preprocessing import Pixels
from lockgate.errors import LockgateError
from lockgate.evaluation.gates import open_gates
from lockgate.runs.checkpoint import newest_end
from lockgate.runs.directory import RunFolder

Reply = dict[str, Any] | Exception


class ServedModel:
    """Answers for the model in ``path``; safe to call from many threads, one at a time does the work."""

    def __init__(self, path: Path, reloaded: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._reloaded = reloaded
        self._end = self._newest()  # first: a task that ends while the model is opened must look new
        self._trained = _opened(path)
        self.stale = ""
        """Why the newest state of the model could not be read, if it could not: then an older one answers."""

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
            "form": "exact" if trained.compiled is None else "compiled",
        }

    def answer(self, questions: Sequence[Question]) -> list[Reply]:
        """For each question what its image shows, or why there is no answer; those about one task go together."""
        with self._lock:
            trained = self._current()
            replies: list[Reply] = [LockgateError("not looked at")] * len(questions)
            groups: dict[int | None, list[tuple[int, Pixels]]] = {}
            for index, question in enumerate(questions):
                try:
                    task = None if question.task is None else trained.task_id(question.task)
                    read = decode_image(question.data, question.name, trained.preprocessing)
                    groups.setdefault(task, []).append((index, read))
                except LockgateError as error:
                    replies[index] = error
            for task, members in groups.items():
                for index, reply in _answers(trained, task, members, questions):
                    replies[index] = reply
        return replies

    def _current(self) -> Trained:
        """The model as it is on disk now; as it was, if it cannot be read at the moment."""
        newest = self._newest()
        if newest != self._end:
            try:
                self._trained, self._end, self.stale = _opened(self.path), newest, ""
                self._reloaded()
            except (LockgateError, OSError) as error:
                self.stale = str(error)  # the next question tries again
        return self._trained

    def _newest(self) -> tuple[str, int] | None:
        """What tells one state of the model from another: a task that was undone and learnt anew has an old name."""
        with contextlib.suppress(OSError):
            end = newest_end(RunFolder(self.path).checkpoints)
            return None if end is None else (end.path.name, (end.path / "manifest.json").stat().st_mtime_ns)
        return None


def _opened(path: Path) -> Trained:
    """The model, compiled here rather than at the first question."""
    trained = open_trained(path)
    _ = trained.compiled
    return trained


def _answers(
    trained: Trained, task: int | None, members: Sequence[tuple[int, Pixels]], questions: Sequence[Question]
) -> list[tuple[int, Reply]]:
    """The replies to questions about one task, or about none, by their number."""
    x = torch.from_numpy(np.stack([pixels for _, pixels in members]))
    try:
        ranked = trained.ask(x, task, max(questions[index].top for index, _ in members), "compiled")
    except LockgateError as error:  # no task was given, and the model needs one
        return [(index, error) for index, _ in members]
    replies: list[tuple[int, Reply]] = []
    for (index, pixels), image, answers in zip(members, x, ranked, strict=True):
        reply: dict[str, Any] = {"answers": [answer.to_dict() for answer in answers[: questions[index].top]]}
        if questions[index].details:
            stream = trained.tasks.index(answers[0].task)
            reply |= {"gates": open_gates(trained.learner, image[None], stream), "seen": _data_uri(pixels)}
        replies.append((index, reply))
    return replies


def _data_uri(pixels: Pixels) -> str:
    file = io.BytesIO()
    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(file, format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
