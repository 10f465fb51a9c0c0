"""The binary releases of CIFAR-10 and CIFAR-100 (Krizhevsky, 2009): records of label bytes and 3 x 32 x 32 pixel bytes.

The releases for Python hold pickles, which can run code when read; they are not used. An archive is read in memory,
member by named member, and never unpacked to disk.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lockgate.data.arrays import Arrays, Dataset, UnreadArrays
from lockgate.data.source import Release, base_folder, find, locate, missing
from lockgate.errors import DataError

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32

Open = Callable[[str], bytes | None]
"""The content of a file of the release by its name, or None."""


@dataclass(frozen=True)
class Layout:
    """One of the two releases."""

    name: str
    archive: Release
    inside: str
    """The folder inside the archive."""
    train: tuple[str, ...]
    test: str
    names: str
    """The file that holds the names of the classes."""
    count: int
    """How many classes there are."""
    label_bytes: int = 1
    """Before the pixels of each record; the last one counts."""
    known: tuple[str, ...] = ()
    """Names to take where that file is missing; none: it is wanted."""

    @property
    def folders(self) -> tuple[str, ...]:
        """Where files are looked for."""
        return (self.name, self.inside, f"{self.name}/{self.inside}", "")

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        return (*self.train, self.test, self.names)

    @property
    def remedy(self) -> str:
        """What to do about a bad file."""
        return f"Replace it by the one of the official {self.archive.name}."


def read(layout: Layout, data_dir: Path | None) -> Dataset:
    """The images (N, 3, 32, 32) of a release, from its .bin files or from its archive; test images when wanted."""
    base = base_folder(data_dir)
    first = find([*layout.train, layout.test], base, layout.folders)
    if first is None and data_dir and base and not find([layout.archive.name], base, layout.folders):
        raise missing([layout.archive.name, layout.train[0]], base, layout.folders)  # either would do: name both
    if first is not None:
        place, content = first.parent, from_folder(first.parent)
    else:
        (place,) = locate([layout.archive], data_dir, layout.folders)
        content = from_archive(layout, place).get

    def batch(name: str) -> Arrays:
        return parse(layout, _required(layout, content, name, place), f"{name} in {place}")

    batches = [batch(name) for name in layout.train]
    train = Arrays(np.concatenate([b.x for b in batches]), np.concatenate([b.y for b in batches]))
    return Dataset(layout.name, _classes(layout, content, place), train, UnreadArrays(lambda: batch(layout.test)))


def parse(layout: Layout, content: bytes, source: str) -> Arrays:
    """The images and labels of one batch; ``source`` names it in errors."""
    size = layout.label_bytes + PIXELS
    if not content or len(content) % size:
        label = "one label" if layout.label_bytes == 1 else f"{layout.label_bytes} labels"
        raise DataError(
            f"{source} holds {len(content):,} bytes; wanted a positive multiple of {size:,} ({label} and "
            f"{PIXELS:,} pixels an image). It is truncated or of another format. {layout.remedy}"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, size)
    y = records[:, layout.label_bytes - 1].astype(np.int64)
    if y.max() >= layout.count:
        raise DataError(
            f"{source} holds the label {y.max()} at image {y.argmax()}; wanted 0 to {layout.count - 1}. {layout.remedy}"
        )
    x = np.ascontiguousarray(records[:, layout.label_bytes :]).reshape(-1, *SHAPE)  # channels come first in the file
    return Arrays(x, y)


def from_folder(folder: Path) -> Open:
    """Files beside each other, each opened when it is wanted."""

    def content(name: str) -> bytes | None:
        try:
            return (folder / name).read_bytes() if (folder / name).is_file() else None
        except OSError as error:
            raise DataError(f"Cannot read {folder / name}: {error}. Make it readable.") from error

    return content


def from_archive(layout: Layout, path: Path) -> dict[str, bytes]:
    """The wanted members of an archive."""
    wanted = {f"{layout.inside}/{name}": name for name in layout.files}
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


def _required(layout: Layout, content: Open, name: str, place: Path) -> bytes:
    found = content(name)
    if found is None:
        raise DataError(
            f"{name} is missing in {place}. Put it there; it comes with the official {layout.archive.name}."
        )
    return found


def _classes(layout: Layout, content: Open, place: Path) -> tuple[str, ...]:
    """The names of the classes as the release has them."""
    found = content(layout.names)
    if found is None and layout.known:
        return layout.known
    names = tuple(_required(layout, content, layout.names, place).decode("utf-8", "replace").split())
    different = len(set(names))
    if not len(names) == different == layout.count:
        said = f"{len(names)} names, {different} of them different"
        raise DataError(f"{layout.names} in {place} holds {said}; wanted {layout.count}. {layout.remedy}")
    return names
