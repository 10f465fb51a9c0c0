"""CIFAR-10 (Krizhevsky, 2009), binary release: records of one label byte and 3 x 32 x 32 pixel bytes.

The release for Python holds pickles, which can run code when read; it is not used. The archive is read in memory,
member by named member, and never unpacked to disk.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lockgate.config import DataConfig
from lockgate.data.arrays import Arrays, Dataset
from lockgate.data.source import Release, base_folder, find, locate, missing
from lockgate.errors import DataError

TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST = "test_batch.bin"
NAMES = "batches.meta.txt"
INSIDE = "cifar-10-batches-bin"  # the folder inside the archive
FOLDERS = ("cifar10", INSIDE, f"cifar10/{INSIDE}", "")
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32
ARCHIVE = Release(
    "cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    (
        "https://www.cs.toronto.edu/~kriz/",
        "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
    ),
)
REMEDY = f"Replace it by the one of the official {ARCHIVE.name}."


def read(data_dir: Path | None, config: DataConfig) -> Dataset:
    """CIFAR-10 as (N, 3, 32, 32) images, from .bin files or from the archive; ``config`` is not used."""
    base = base_folder(data_dir)
    first = find([*TRAIN, TEST], base, FOLDERS)
    if first is None and data_dir and base and not find([ARCHIVE.name], base, FOLDERS):
        raise missing([ARCHIVE.name, *TRAIN[:1]], base, FOLDERS)  # either form would do: name both
    if first is not None:
        place, content = first.parent, _from_folder(first.parent)
    else:
        (place,) = locate([ARCHIVE], data_dir, FOLDERS)
        content = _from_archive(place)
    for name in (*TRAIN, TEST):
        if name not in content:
            raise DataError(f"{name} is missing in {place}. Put it there; it comes with the official {ARCHIVE.name}.")
    batches = [parse(content[name], f"{name} in {place}") for name in TRAIN]
    train = Arrays(np.concatenate([b.x for b in batches]), np.concatenate([b.y for b in batches]))
    return Dataset("cifar10", _classes(content, place), train, parse(content[TEST], f"{TEST} in {place}"))


def parse(content: bytes, source: str) -> Arrays:
    """The images and labels of one batch; ``source`` names it in errors."""
    if not content or len(content) % RECORD:
        raise DataError(
            f"{source} holds {len(content):,} bytes; wanted a positive multiple of {RECORD:,} (one label and "
            f"{RECORD - 1:,} pixels an image). It is truncated or of another format. {REMEDY}"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    y = records[:, 0].astype(np.int64)
    if y.max() > 9:
        raise DataError(f"{source} holds the label {y.max()} at image {y.argmax()}; wanted 0 to 9. {REMEDY}")
    x = np.ascontiguousarray(records[:, 1:]).reshape(-1, *SHAPE)  # (N, 3, 32, 32): channels come first in the file
    return Arrays(x, y)


def _from_folder(folder: Path) -> dict[str, bytes]:
    try:
        return {name: (folder / name).read_bytes() for name in (*TRAIN, TEST, NAMES) if (folder / name).is_file()}
    except OSError as error:
        raise DataError(f"Cannot read {folder}: {error}. Make its files readable.") from error


def _from_archive(path: Path) -> dict[str, bytes]:
    wanted = {f"{INSIDE}/{name}": name for name in (*TRAIN, TEST, NAMES)}
    content = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                # A regular file of exactly an expected name: links, devices and paths that climb are passed over.
                if member.isreg() and member.name in wanted and (stream := archive.extractfile(member)):
                    content[wanted[member.name]] = stream.read()
            while archive.fileobj and archive.fileobj.read(1 << 20):  # gzip checks its sum at the very end
                pass
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DataError(f"Cannot read {path}: {error}. Replace it by the official file.") from error
    return content


def _classes(content: Mapping[str, bytes], place: Path) -> tuple[str, ...]:
    """The names in batches.meta.txt; that file is small print, so without it the well-known names are used."""
    if NAMES not in content:
        return CLASSES
    names = tuple(content[NAMES].decode("utf-8", "replace").split())
    different = len(set(names))
    if not len(names) == different == len(CLASSES):
        said = f"{len(names)} names, {different} of them different"
        raise DataError(f"{NAMES} in {place} holds {said}; wanted {len(CLASSES)}. {REMEDY}")
    return names
