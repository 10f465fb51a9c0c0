"""Data sets of grey 28x28 images in four idx files, gzipped or not: MNIST's layout, which others took over.

An idx file is a big-endian header -- two zero bytes, a type code, the number of axes, then one 32-bit size per axis --
followed by the raw values. Here all values are unsigned bytes.
"""

from __future__ import annotations

import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lockgate.data.arrays import Arrays, Dataset, DataSize, UnreadArrays
from lockgate.data.source import Release, locate
from lockgate.errors import DataError

SIDE = 28
UNSIGNED_BYTE = 0x08
REMEDY = "Replace it by the official file."
STEMS = (("train-images", 3), ("train-labels", 1), ("t10k-images", 3), ("t10k-labels", 1))
"""The four files, with the axes that each has."""


@dataclass(frozen=True)
class Layout:
    """Where such a data set is, and what its labels mean."""

    name: str
    folders: tuple[str, ...]
    """Where a user may keep it; the first is that of the cache."""
    classes: tuple[str, ...]
    files: tuple[Release, ...]


def releases(mirrors: tuple[str, ...], checksums: tuple[str, str, str, str]) -> tuple[Release, ...]:
    """The four official files, in the order of ``STEMS``."""
    return tuple(
        Release(
            f"{stem}-idx{axes}-ubyte.gz",
            sha256,
            mirrors,
            (f"{stem}-idx{axes}-ubyte", f"{stem}.idx{axes}-ubyte"),  # unpacked; some archives write a dot
        )
        for (stem, axes), sha256 in zip(STEMS, checksums, strict=True)
    )


def as_published() -> DataSize:
    """The size that all of them have."""
    return DataSize(images_per_class=6000, classes=10, side=SIDE, channels=1)


def read(layout: Layout, data_dir: Path | None) -> Dataset:
    """(N, 1, 28, 28) images; those for testing when they are asked for."""
    train, test = layout.files[:2], layout.files[2:]
    return Dataset(
        layout.name,
        layout.classes,
        _split(*locate(train, data_dir, layout.folders)),
        UnreadArrays(lambda: _split(*locate(test, data_dir, layout.folders))),
    )


def read_idx(path: Path, axes: int) -> npt.NDArray[np.uint8]:
    """The array of unsigned bytes an idx file with that many axes holds."""
    content = _content(path)
    magic = bytes([0, 0, UNSIGNED_BYTE, axes])
    start = 4 + 4 * axes
    if content[:4] != magic:
        raise DataError(f"{path} begins with {content[:4].hex(' ')}; an idx{axes} file with {magic.hex(' ')}. {REMEDY}")
    if len(content) < start:
        raise DataError(f"{path} ends inside its header: {len(content)} bytes, wanted {start}. {REMEDY}")
    shape = [int(size) for size in np.frombuffer(content[4:start], ">u4")]
    wanted = math.prod(shape)
    if len(content) - start != wanted:
        raise DataError(
            f"{path} holds {len(content) - start:,} bytes of values, but its header announces "
            f"{' x '.join(map(str, shape))} = {wanted:,}. It is truncated or damaged. {REMEDY}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()  # a copy can be written to


def _content(path: Path) -> bytes:
    """The bytes of a file, unpacked if they are gzipped whatever its name: some browsers unpack and keep the .gz."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"Cannot read {path}: {error}. It is truncated or damaged. {REMEDY}") from error


def _split(images: Path, labels: Path) -> Arrays:
    x, y = read_idx(images, 3), read_idx(labels, 1)
    if x.shape[1:] != (SIDE, SIDE):
        raise DataError(f"{images} holds images of {x.shape[1]}x{x.shape[2]} pixels, wanted {SIDE}x{SIDE}. {REMEDY}")
    if len(x) != len(y) or len(x) == 0:
        raise DataError(
            f"{images} holds {len(x):,} images and {labels} {len(y):,} labels; wanted the same number, at least one. "
            "Take both files from the same release."
        )
    if y.max() > 9:
        raise DataError(f"{labels} holds the label {y.max()} at position {y.argmax()}; wanted 0 to 9. {REMEDY}")
    return Arrays(x[:, None], y.astype(np.int64))  # (N, 1, 28, 28)
