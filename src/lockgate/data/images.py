"""Folders of images, one per class, to arrays: shared by `folder` and `imagenet50`.

Each whole image is squeezed to a square with Pillow's BOX filter (the mean of the pixels under each new one), as in
downsampled ImageNet (Chrabaszcz et al., 2017). No cropping, no rotation by EXIF, no blending of transparency.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from lockgate.data.arrays import Arrays
from lockgate.errors import DataError

LITTER = {"thumbs.db", "desktop.ini"}  # what Windows leaves behind; files with a leading dot are passed over as well
MANY = 1000  # from this many files on, a progress bar is worth its line


def class_folders(split: Path) -> list[str]:
    """The names of the class folders of a split, sorted."""
    return sorted(item.name for item in split.iterdir() if item.is_dir() and not item.name.startswith("."))


def read_split(split: Path, classes: Sequence[str], size: int, greyscale: bool = False) -> Arrays:
    """All images of ``split/<class>/``, labelled by the position of their class, in the order of their names."""
    files, labels = [], []
    for label, name in enumerate(classes):
        found = _image_files(split / name)
        files += found
        labels += [label] * len(found)
    x = np.empty((len(files), 1 if greyscale else 3, size, size), np.uint8)
    # Threads help because Pillow decodes outside the interpreter's lock; map() keeps the order and cancels on error.
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        images = pool.map(lambda path: read_image(path, size, greyscale), files)
        for i, image in enumerate(_progress(images, f"Reading {split}", len(files))):
            x[i] = image
    return Arrays(x, np.array(labels, np.int64))


def read_image(path: Path, size: int, greyscale: bool = False) -> npt.NDArray[np.uint8]:
    """One image as (C, size, size)."""
    try:
        with Image.open(path) as image:
            _refuse(path, image)
            square = image.convert("L" if greyscale else "RGB").resize((size, size), Image.Resampling.BOX)
    except DataError:
        raise
    except Image.DecompressionBombError as error:
        raise DataError(f"{path} is too large to be read safely: {error} Shrink it, or remove it.") from error
    except Exception as error:  # each format of Pillow raises its own: OS-, Value-, Syntax-, RuntimeError ...
        raise DataError(f"Cannot read the image {path}: {error}. Repair it, or remove it.") from error
    pixels = np.asarray(square, np.uint8)
    return pixels[None] if greyscale else pixels.transpose(2, 0, 1)


def _refuse(path: Path, image: Image.Image) -> None:
    """Stop before decoding what would exhaust memory or come out white."""
    limit = Image.MAX_IMAGE_PIXELS
    width, height = image.size
    if limit is not None and width * height > limit:  # Pillow itself only warns up to twice this
        raise DataError(f"{path} has {width}x{height} pixels; wanted at most {limit:,}. Shrink it, or remove it.")
    if image.mode.startswith(("I", "F")):  # conversion would clip at 255 without a word
        raise DataError(f"{path} has pixels of mode {image.mode}; wanted 8 bits a channel. Convert it first.")


def _image_files(folder: Path) -> list[Path]:
    """Everything in a class folder, sorted; what is not an image fails later with its name."""
    if not folder.is_dir():
        raise DataError(f"The class folder {folder} does not exist. Create it and put the images of that class in it.")
    items = sorted(i for i in folder.iterdir() if not i.name.startswith(".") and i.name.lower() not in LITTER)
    for item in items:
        if item.is_dir():
            raise DataError(f"{item} is a folder inside a class folder; wanted images only. Move its images up.")
    if not items:
        raise DataError(f"The class folder {folder} is empty. Put images in it, or remove the class.")
    return items


def _progress(images: Iterator[npt.NDArray[np.uint8]], what: str, total: int) -> Iterable[npt.NDArray[np.uint8]]:
    if total < MANY or not sys.stderr.isatty():
        return images
    from rich.console import Console
    from rich.progress import track

    return track(images, what, total=total, console=Console(stderr=True), transient=True)
