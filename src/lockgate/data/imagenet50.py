"""Imagenet-50: fifty ILSVRC-2012 classes, resized (32x32 unless told otherwise). You bring the images.

Which fifty is up to you: ``wnids`` names them, else ``class_seed`` chooses. Numbers compare only between equal choices.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from lockgate.config import DataConfig
from lockgate.data.arrays import Arrays, Dataset, DataSize, UnreadArrays
from lockgate.data.images import class_folders, read_split
from lockgate.data.preprocessing import Preprocessing
from lockgate.data.source import ENVIRONMENT, base_folder
from lockgate.errors import DataError

FOLDERS = ("", "imagenet50", "imagenet", "ILSVRC2012")
COUNT = 50
WNID = re.compile(r"n\d{8}")
REMEDY = (
    "Its licence does not allow us to fetch ImageNet: get ILSVRC-2012 from image-net.org, sort it into "
    "DIR/imagenet50/train/<wnid>/*.JPEG and DIR/imagenet50/val/<wnid>/*.JPEG (wnid like n01440764), "
    f"and pass --data-dir DIR or set {ENVIRONMENT}=DIR."
)


def size(data_dir: Path | None, config: DataConfig) -> DataSize:
    """Of most classes of ILSVRC-2012, at the size that ``config`` has; no file is looked at."""
    return DataSize(images_per_class=1300, classes=len(config.wnids) or COUNT, side=config.image_size, channels=3)


def read(data_dir: Path | None, config: DataConfig) -> Dataset:
    """The chosen classes as (N, 3, size, size); ``val`` is the test split. ``config.wnids`` sets the label order."""
    root = _root(base_folder(data_dir))
    train, val = root / "train", root / "val"
    wnids, how = _choose(train, config), Preprocessing.of(replace(config, greyscale=False))

    def read_val() -> Arrays:
        return _read_split(val, wnids, how, config.in_memory)

    return Dataset("imagenet50", wnids, _read_split(train, wnids, how, config.in_memory), UnreadArrays(read_val))


def _read_split(split: Path, wnids: tuple[str, ...], how: Preprocessing, in_memory: int) -> Arrays:
    absent = [wnid for wnid in wnids if not (split / wnid).is_dir()]
    if absent:
        # The official validation set is one flat folder of 50,000 files; say so rather than "missing".
        flat = " It holds images directly: sort them into one folder per wnid." if any(split.glob("*.JPEG")) else ""
        raise DataError(f"{split} lacks the class folders {', '.join(absent)}.{flat} {REMEDY}")
    return read_split(split, wnids, how, in_memory)


def _root(base: Path | None) -> Path:
    if base is None:
        raise DataError(f"The data set 'imagenet50' needs a folder. {REMEDY}")
    places = [base / folder for folder in FOLDERS if (base / folder / "train").is_dir()]
    if places:  # with both splits, if there is one
        return next((place for place in places if (place / "val").is_dir()), places[0])
    looked = "\n".join(f"  - {base / folder}" for folder in FOLDERS)
    raise DataError(f"No folder with train/ and val/ was found. Looked in:\n{looked}\n{REMEDY}")


def _choose(train: Path, config: DataConfig) -> tuple[str, ...]:
    """The wanted wnids in label order: as configured, or a seeded choice in sorted order."""
    if config.wnids:
        twice = sorted({wnid for wnid in config.wnids if config.wnids.count(wnid) > 1})
        if twice:
            raise DataError(f"'data.wnids' names {', '.join(twice)} more than once. Name every class once.")
        return config.wnids
    found = [name for name in class_folders(train) if WNID.fullmatch(name)]
    if len(found) < COUNT:
        raise DataError(
            f"{train} holds {len(found)} class folders; wanted at least {COUNT}. "
            f"To use fewer, name them in 'data.wnids'. {REMEDY}"
        )
    chosen = np.random.default_rng(config.class_seed).permutation(len(found))[:COUNT]
    return tuple(found[i] for i in sorted(chosen))  # with exactly 50 folders: all of them
