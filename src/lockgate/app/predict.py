"""``lockgate predict``: image files to answers, batch by batch. A file that cannot be read does not hold up the others.

Nothing is kept of a batch when the next is read, so that a million images need no more memory than a few hundred.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from lockgate.app.trained import Answer, Form, Trained
from lockgate.data.images import LITTER, decode_image, try_image
from lockgate.data.preprocessing import Pixels, Preprocessing
from lockgate.errors import DataError
from lockgate.training.phase import eval_batch

STDIN = Path("-")
"""In the place of a file: an image, or the names of image files a line, from standard input."""
PICTURES = (b"\x89PNG", b"\xff\xd8", b"GIF8", b"RIFF", b"BM")
"""How the bytes begin of the images that are read from strangers."""
AHEAD = 8
"""Passes for which images are read before they are answered, where nobody says how many: more take too much memory."""


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


@dataclass(frozen=True)
class Blob:
    """The bytes of an image without a file."""

    data: bytes

    def __str__(self) -> str:
        return "-"


Source = Path | str | Blob
"""A file, or what has none."""


def look(
    trained: Trained,
    sources: Iterable[Source],
    task: str | None,
    top: int,
    form: Form = "exact",
    batch: int | None = None,
) -> Iterator[Prediction]:
    """What the model takes each image for, in the order given; ``batch`` of them are read and answered at a time.

    None: as many as a pass takes, and of the compiled form, which puts like images together, twice as many every time.
    """
    known = None if task is None else trained.task_id(task)
    size = eval_batch(trained.preprocessing.shape)
    most = batch or (AHEAD * size if form == "compiled" else size)
    remaining, at_once = iter(sources), batch or size
    while some := list(itertools.islice(remaining, at_once)):
        yield from _look(trained, some, known, top, form)
        at_once = min(2 * at_once, most)


def _look(trained: Trained, some: Sequence[Source], task: int | None, top: int, form: Form) -> Iterator[Prediction]:
    wanted = trained.preprocessing
    read = [_read(source, wanted) for source in some]
    good = [image for image in read if not isinstance(image, DataError)]
    answers = iter(trained.ask(torch.from_numpy(np.stack(good)), task, top, form) if good else [])
    for source, image in zip(some, read, strict=True):
        if isinstance(image, DataError):
            yield Prediction(str(source), (), str(image))
        else:
            yield Prediction(str(source), tuple(next(answers)))


def _read(source: Source, wanted: Preprocessing) -> Pixels | DataError:
    if isinstance(source, Blob):
        try:
            return decode_image(source.data, "What came from standard input", wanted)
        except DataError as error:
            return error
    found = try_image(source, wanted)
    missing = isinstance(found, DataError) and not os.path.exists(source)  # asked only now: most files are there
    return DataError(f"There is no file {source}. Look at its path.") if missing else found


def sources(paths: Sequence[Path], stdin: BinaryIO | None = None) -> tuple[Iterator[Source], int | None]:
    """Files, those of folders (and of their folders) by their names, and standard input; how many, where known."""
    if STDIN not in paths:
        files = list(_files(paths))
        return iter(files), len(files)
    if len(paths) > 1:
        raise DataError("Standard input ('-') stands alone. Got it beside other images; name those in its lines.")
    given = stdin or sys.stdin.buffer
    first = given.readline()
    if first.startswith(PICTURES):
        return iter([Blob(first + given.read())]), 1
    return _named(itertools.chain([first], given)), None


def _named(lines: Iterable[bytes]) -> Iterator[Path]:
    """The files that lines name, as they come."""
    for line in lines:
        name = line.rstrip(b"\r\n")
        if name:
            yield Path(name.decode("utf-8", "surrogateescape"))


def _files(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from _inside(str(path)) if path.is_dir() else [str(path)]


def _inside(folder: str) -> Iterator[str]:
    """Files of a folder and of those in it, by their names; hidden ones are passed over, and links to folders."""
    try:
        with os.scandir(folder) as found:
            entries = sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except PermissionError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _inside(entry.path)
        elif entry.is_file() and entry.name.lower() not in LITTER:
            yield entry.path
