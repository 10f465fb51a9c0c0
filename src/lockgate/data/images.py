"""Files of images to arrays: shared by `folder`, `imagenet50` and `tiny_imagenet`.

What is done to each image is in ``preprocessing.py``.
"""

from __future__ import annotations

import io
import math
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from lockgate.config import DataConfig
from lockgate.data.arrays import Arrays
from lockgate.data.cache import cache_file, mapped, open_cache, write_cache
from lockgate.data.plain_png import plain_png
from lockgate.data.preprocessing import Pixels, Preprocessing
from lockgate.errors import DataError

LITTER = {"thumbs.db", "desktop.ini"}  # what Windows leaves behind; files with a leading dot are passed over as well
MANY = 1000  # from this many files on, a progress bar is worth its line
COMMON = ("PNG", "JPEG", "WEBP", "GIF", "BMP")  # decoded by Pillow itself: for others it may start other programs
MOST_TOLD = 10  # bad images named in one error
AT_ONCE = 2**20  # bytes; smaller files are read in one go, which is faster than piece by piece as Pillow does
SMALL = 2**16  # bytes; to ask for more takes longer than to read a small file, since room is made for all of it
BLOCK = 512  # files that are decoded at a time
IN_MEMORY = DataConfig.in_memory

Images = npt.NDArray[np.uint8]  # (N, C, H, W)


def class_folders(split: Path) -> list[str]:
    """The names of the class folders of a split, sorted."""
    names = sorted(item.name for item in split.iterdir() if item.is_dir() and not item.name.startswith("."))
    # Names become classes, which are written to files and sent as JSON.
    bad = [name.encode("utf-8", "backslashreplace").decode() for name in names if not _is_text(name)]
    if bad:
        raise DataError(f"Folders in {split} have names that are not UTF-8: {', '.join(bad)}. Rename them.")
    return names


def _is_text(name: str) -> bool:
    """Whether ``name`` can be written: what is not UTF-8 comes from the file system as lone surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def read_split(split: Path, classes: Sequence[str], how: Preprocessing, in_memory: int = IN_MEMORY) -> Arrays:
    """All images of ``split/<class>/``, labelled by the position of their class, in the order of their names."""
    files, labels = [], []
    for label, name in enumerate(classes):
        found = image_files(split / name)
        files += found
        labels += [label] * len(found)
    return Arrays(read_files(files, how, str(split), in_memory), np.array(labels, np.int64))


def read_files(files: Sequence[Path], how: Preprocessing, what: str = "images", in_memory: int = IN_MEMORY) -> Images:
    """Image files as (N, C, H, W), or an error that names every bad one; ``what`` is shown as progress.

    More than ``in_memory`` MiB are not held in memory but in a file that is mapped (``cache.py``).
    """
    shape = (len(files), *how.shape)
    if math.prod(shape) <= in_memory * 2**20:
        x = np.empty(shape, np.uint8)
        for i, image in enumerate(_read_all(files, how, f"Reading {what}")):
            if image is not None:
                x[i] = image
        return x
    file = cache_file(files, how)
    kept = open_cache(file, shape)
    if kept is None:
        write_cache(file, _read_all(files, how, f"Reading {what} into {file}"), shape)
        kept = mapped(file, shape)
    return kept


def _read_all(files: Sequence[Path], how: Preprocessing, what: str) -> Iterator[Pixels | None]:
    """Every image in order, None for a bad one; at the end, an error that names them."""
    bad: list[DataError] = []
    # Threads help because Pillow decodes outside the interpreter's lock; map() keeps the order.
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        # In blocks, so that what is decoded does not pile up before it is taken.
        blocks = (files[start : start + BLOCK] for start in range(0, len(files), BLOCK))
        images = (image for block in blocks for image in pool.map(lambda path: try_image(path, how), block))
        for image in _progress(images, what, len(files)):
            if isinstance(image, DataError):
                bad.append(image)
                yield None
            else:
                yield image
    if bad:
        more = f"\n({len(bad) - MOST_TOLD} more cannot be read either.)" if len(bad) > MOST_TOLD else ""
        raise DataError("\n".join(str(error) for error in bad[:MOST_TOLD]) + more) from bad[0]


def try_image(path: Path | str, how: Preprocessing) -> Pixels | DataError:
    """One image as (C, H, W), or why there is none: to go on with the others."""
    try:
        return read_image(path, how)
    except DataError as error:
        return error


def read_image(path: Path | str, how: Preprocessing) -> Pixels:
    """One image file as (C, H, W)."""
    name = str(path)
    with _ToldByName(name):
        handle = os.open(
            path, os.O_RDONLY | getattr(os, "O_BINARY", 0)
        )  # Python's own file takes as long as the pixels
        try:
            data = os.read(handle, SMALL)
            plain = plain_png(data)
            if plain is not None:
                return how.of_upright(plain)
            with open(handle, "rb", closefd=False) as file:  # all: one call may read less than there is
                data += file.read(AT_ONCE - len(data))
        finally:
            os.close(handle)
        with Image.open(io.BytesIO(data) if len(data) < AT_ONCE else path) as image:
            return _pixels(name, image, how)


def decode_image(data: bytes, name: str, how: Preprocessing) -> Pixels:
    """The bytes of one image file from a stranger as (C, H, W); ``name`` is what errors call it."""
    with _ToldByName(name):
        plain = plain_png(data)
        if plain is not None:
            return how.of_upright(plain)
        try:
            opened = Image.open(io.BytesIO(data), formats=COMMON)
        except UnidentifiedImageError as error:  # Pillow's words are about an object in memory
            raise DataError(f"{name} is not an image of a kind that is read here; wanted {_kinds()}.") from error
        with opened as image:
            return _pixels(name, image, how)


def _kinds() -> str:
    return ", ".join(COMMON[:-1]) + f" or {COMMON[-1]}"


class _ToldByName:
    """Whatever Pillow raises inside, as an error that names the image. A class: for thousands of images it counts."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, DataError):
            raise DataError(_told(self.name, error)) from error


def _told(name: str, error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):  # Pillow goes on about an object in memory
        what = "cannot identify image file, which is of no kind that is known"
        return f"Cannot read the image {name}: {what}. Repair it, or remove it."
    if isinstance(error, Image.DecompressionBombError):
        return f"{name} is too large to be read safely: {error} Shrink it, or remove it."
    # Each format of Pillow raises its own: OS-, Value-, Syntax-, RuntimeError ...
    return f"Cannot read the image {name}: {error}. Repair it, or remove it."


def _pixels(name: str, image: Image.Image, how: Preprocessing) -> Pixels:
    _refuse(name, image)
    return how(image)


def _refuse(name: str, image: Image.Image) -> None:
    """Stop before decoding what would exhaust memory or come out white."""
    limit = Image.MAX_IMAGE_PIXELS
    width, height = image.size
    if limit is not None and width * height > limit:  # Pillow itself only warns up to twice this
        raise DataError(f"{name} has {width}x{height} pixels; wanted at most {limit:,}. Shrink it, or remove it.")
    if image.mode.startswith(("I", "F")):  # conversion would clip at 255 without a word
        raise DataError(f"{name} has pixels of mode {image.mode}; wanted 8 bits a channel. Convert it first.")


def image_files(folder: Path) -> list[Path]:
    """Everything in a class folder, sorted; what is not an image fails later with its name."""
    if not folder.is_dir():
        raise DataError(f"The class folder {folder} does not exist. Create it and put the images of that class in it.")
    items = sorted(i for i in folder.iterdir() if not i.name.startswith(".") and i.name.lower() not in LITTER)
    for item in items:
        kind = _kind(item)
        if stat.S_ISDIR(kind):
            raise DataError(f"{item} is a folder inside a class folder; wanted images only. Move its images up.")
        if kind and not stat.S_ISREG(kind):  # to read a pipe would be to wait for ever
            raise DataError(f"{item} is a pipe or a device; wanted images only. Move it elsewhere.")
    if not items:
        raise DataError(f"The class folder {folder} is empty. Put images in it, or remove the class.")
    return items


def _kind(item: Path) -> int:
    """What the system calls it; 0: of a link that leads nowhere is told when it is read."""
    try:
        return item.stat().st_mode
    except OSError:
        return 0


def _progress(images: Iterator[Pixels | DataError], what: str, total: int) -> Iterable[Pixels | DataError]:
    if total < MANY or not sys.stderr.isatty():
        return images
    from rich.console import Console
    from rich.progress import track

    return track(images, what, total=total, console=Console(stderr=True), transient=True)
