"""``lockgate predict``: image files to answers. A file that cannot be read does not hold up the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lockgate.app.trained import Answer, Trained
from lockgate.data.images import LITTER, try_image
from lockgate.errors import DataError
from lockgate.training.phase import EVAL_BATCH


@dataclass(frozen=True)
class Prediction:
    """One image file, and what the model takes it for or why it could not be read."""

    path: str
    answers: tuple[Answer, ...]
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = [answer.to_dict() for answer in self.answers]
        return {"image": self.path, "error": self.error} if self.error else {"image": self.path, "answers": found}


def look(trained: Trained, paths: Sequence[Path], task: str | None, top: int) -> Iterator[Prediction]:
    """What the model takes each image for, the files of folders (and of their folders) in the order of their names."""
    known = None if task is None else trained.task_id(task)
    files = list(_files(paths))
    for start in range(0, len(files), EVAL_BATCH):
        yield from _look(trained, files[start : start + EVAL_BATCH], known, top)


def _look(trained: Trained, files: Sequence[Path], task: int | None, top: int) -> Iterator[Prediction]:
    read = [try_image(file, trained.image_size, trained.greyscale) for file in files]
    good = [image for image in read if not isinstance(image, DataError)]
    answers = iter(trained.ask(torch.from_numpy(np.stack(good)), task, top) if good else [])
    for file, image in zip(files, read, strict=True):
        if isinstance(image, DataError):
            yield Prediction(str(file), (), str(image))
        else:
            yield Prediction(str(file), tuple(next(answers)))


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(p for p in path.rglob("*") if p.is_file() and p.name.lower() not in LITTER)
        yield from (p for p in found if not any(part.startswith(".") for part in p.relative_to(path).parts))
