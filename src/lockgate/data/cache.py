"""Images that do not fit into memory: decoded once into one file, which is then mapped into memory page by page.

    <key>.u8    N x C x H x W bytes, then the 32 bytes of their SHA-256

The key is of everything that decides the bytes: each file's path, size and time of change, what is done to pictures,
and the version of Pillow. A file is written beside its place and renamed into it, so it is there whole or not at all.
It is checked whenever it is opened; a damaged one is named and made anew.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import PIL

from lockgate.data.preprocessing import Pixels, Preprocessing
from lockgate.errors import DataError

ENVIRONMENT = "LOCKGATE_CACHE"
FORMAT = 1
CHECKSUM = 32  # bytes of a SHA-256
BLOCK = 2**24  # bytes that are checked at a time

Mapped = np.memmap[tuple[int, ...], np.dtype[np.uint8]]


def cache_folder() -> Path:
    """Where the files are: LOCKGATE_CACHE, else the per-user cache of this OS."""
    given = os.environ.get(ENVIRONMENT)
    if given:
        return Path(given).expanduser()
    import pooch  # late: pulls in requests

    return Path(pooch.os_cache("lockgate")) / "images"


def cache_file(files: Sequence[Path], how: Preprocessing) -> Path:
    """Where the images ``files`` are kept, prepared by ``how``."""
    known = [FORMAT, PIL.__version__, asdict(how)]
    for file in files:
        with suppress(OSError):  # a broken link is named when it is read
            found = file.stat()
            known.append([str(file.absolute()), found.st_size, found.st_mtime_ns])
    return cache_folder() / f"{hashlib.sha256(json.dumps(known).encode()).hexdigest()[:32]}.u8"


def open_cache(path: Path, shape: tuple[int, ...]) -> Mapped | None:
    """The images (N, C, H, W) of a cache file; None if there is none, or it is damaged, which is said."""
    if not path.is_file():
        return None
    size = math.prod(shape)
    if path.stat().st_size != size + CHECKSUM or _sha256(path, size) != _tail(path):
        print(f"The image cache {path} is damaged: it is made anew.", file=sys.stderr, flush=True)
        return None
    return mapped(path, shape)


def mapped(path: Path, shape: tuple[int, ...]) -> Mapped:
    """The images of a cache file, unchecked."""
    # Copy-on-write: nothing that is done to the array reaches the file, and torch does not complain of it.
    return np.memmap(path, np.uint8, "c", shape=shape)


def write_cache(path: Path, images: Iterable[Pixels | None], shape: tuple[int, ...]) -> None:
    """Write images (C, H, W) one after the other; whoever gives a None raises at the end, and nothing is kept."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    sha = hashlib.sha256()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            for image in images:
                data = b"" if image is None else image.tobytes()
                file.write(data)
                sha.update(data)
            file.write(sha.digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise DataError(
            f"Cannot keep {shape[0]:,} images, {math.prod(shape) / 2**20:,.0f} MiB, in {path.parent}: {error.strerror}."
            f" Free some room there, set {ENVIRONMENT} to a folder that has it, make images smaller (data.image_size), "
            "or, if they fit into memory, raise data.in_memory."
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def _sha256(path: Path, size: int) -> bytes:
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while size and (data := file.read(min(BLOCK, size))):
            sha.update(data)
            size -= len(data)
    return sha.digest()


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-CHECKSUM, os.SEEK_END)
        return file.read()


def is_mapped(images: npt.NDArray[np.uint8]) -> bool:
    """Whether an array is read from a cache file as it is looked at."""
    return isinstance(images, np.memmap) and images.filename is not None
