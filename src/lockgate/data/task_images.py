"""Images that a user brings for one more task: looked at first, then read at the size the model works at.

A task comes as a folder with one sub-folder per class, or as an array with its labels. Both are resized to squares
by the same rule (``data/preprocessing.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from lockgate.data.arrays import Arrays
from lockgate.data.images import class_folders, image_files, read_split
from lockgate.data.preprocessing import Preprocessing
from lockgate.errors import DataError

GREY = {"1", "L", "LA"}  # modes of Pillow
CHANNELS = (1, 3)


@dataclass(frozen=True)
class ImageStats:
    """What a first look at the images says."""

    side: int
    """The median of their shorter sides, in pixels."""
    grey: bool
    """Whether all of them are grey."""


class TaskImages(Protocol):
    """Labelled images of some classes."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in label order."""

    @property
    def integers(self) -> bool:
        """Whether the names stand for whole numbers."""

    def stats(self) -> ImageStats:
        """Look at the images without decoding more than is needed."""

    def read(self, how: Preprocessing) -> Arrays:
        """All images as squares."""


class FolderImages:
    """``folder/<class>/<images>``."""

    integers = False

    def __init__(self, folder: Path) -> None:
        layout = "Wanted: one sub-folder of images per class, e.g. FOLDER/cat/1.jpg, FOLDER/dog/1.jpg."
        if not folder.is_dir():
            raise DataError(f"{folder} is not a folder. {layout}")
        self.folder = folder
        self.classes = tuple(class_folders(folder))
        if not self.classes:
            raise DataError(f"{folder} has no sub-folders. {layout}")

    def stats(self) -> ImageStats:
        """Open every image, decode none; ``read`` names all that cannot be opened, at once."""
        sides, modes = [], set()
        for name in self.classes:
            for file in image_files(self.folder / name):
                try:
                    with Image.open(file) as image:
                        sides.append(min(image.size))
                        modes.add(image.mode)
                except Exception:  # as in ``images.read_image``: every format raises its own
                    continue
        return ImageStats(int(np.median(sides)) if sides else 1, bool(modes) and modes <= GREY)

    def read(self, how: Preprocessing) -> Arrays:
        """All images, resized to squares; every bad one is named."""
        return read_split(self.folder, self.classes, how)


class ArrayImages:
    """Images and labels in RAM."""

    def __init__(self, images: npt.NDArray[np.generic], labels: npt.NDArray[np.generic]) -> None:
        self.x = as_pixels(images)
        if labels.shape != (len(self.x),):
            raise DataError(f"Labels have shape {labels.shape}; wanted one for each of the {len(self.x)} images.")
        if labels.dtype.kind == "O":  # of whatever they are, if they are all of a kind
            labels = np.array(labels.tolist()) if len({type(label) for label in labels}) == 1 else labels
        self.integers = bool(np.issubdtype(labels.dtype, np.integer))
        if not self.integers and labels.dtype.kind != "U":
            kinds = ", ".join(sorted({type(label).__name__ for label in labels.tolist()}))
            what = f"{kinds}, which is continuous" if labels.dtype.kind == "f" else kinds
            raise DataError(
                f"Labels are of type {what}; wanted all whole numbers or all text. Turn them into one of these."
            )
        names, y = np.unique(labels, return_inverse=True)
        self.classes = tuple(str(name) for name in names)
        self.y = y.astype(np.int64)

    def stats(self) -> ImageStats:
        """The array says it all."""
        return ImageStats(min(self.x.shape[1:3]), self.x.shape[3] == 1)

    def read(self, how: Preprocessing) -> Arrays:
        """All images, resized to squares."""
        return Arrays(fitted(self.x, how), self.y)


def as_pixels(images: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    """Images (N, H, W), (N, H, W, C) or (N, C, H, W), bytes or floats in [0, 1], as (N, H, W, C) uint8."""
    if images.ndim == 3 and images.shape[2] in CHANNELS:
        raise DataError(
            f"Images have shape {images.shape}, which looks like one image; wanted (1, H, W, C): images[None]."
        )
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4 or not images.size:
        raise DataError(
            f"Images have shape {images.shape}; wanted (N, H, W), (N, H, W, C) or (N, C, H, W), none of them 0. "
            "Reshape your data."
        )
    if images.shape[1] in CHANNELS and images.shape[3] not in CHANNELS:
        images = images.transpose(0, 2, 3, 1)
    if images.shape[3] not in CHANNELS:
        raise DataError(f"Images have shape {images.shape}; wanted one channel (grey) or three (colour).")
    if images.dtype == np.uint8:
        return images.astype(np.uint8, copy=False)
    if images.dtype.kind == "c":
        raise DataError("Complex data not supported; wanted floats in [0, 1] or whole numbers in 0 .. 255.")
    if images.dtype.kind not in "uifb":
        raise DataError(f"Images are of type {images.dtype}; wanted floats in [0, 1] or whole numbers in 0 .. 255.")
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        raise DataError("Images hold NaN or infinity; wanted floats in [0, 1]. Leave these images out or mend them.")
    low, high = float(images.min()), float(images.max())
    top = 1.0 if images.dtype.kind in "fb" else 255.0
    if not 0.0 <= low <= high <= top:
        raise DataError(
            f"Images of type {images.dtype} run from {low:g} to {high:g}; wanted floats in [0, 1] or whole numbers in "
            "0 .. 255. Scale them, and do not standardise them: the model does."
        )
    return np.rint(images.astype(np.float64) * (255.0 / top)).astype(np.uint8)


def fitted(pixels: npt.NDArray[np.uint8], how: Preprocessing) -> npt.NDArray[np.uint8]:
    """Images (N, H, W, C) as (N, C, H, W), resized like files."""
    channels, height, width = how.shape
    if pixels.shape[1:] == (height, width, channels):
        return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    images = (Image.fromarray(p[..., 0] if p.shape[2] == 1 else p) for p in pixels)
    return np.stack([how(image) for image in images])
