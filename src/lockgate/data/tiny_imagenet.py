"""Tiny-ImageNet-200 (Stanford CS231n): 200 ILSVRC classes, 64x64. You bring the folder; it is not fetched.

    tiny-imagenet-200/wnids.txt, words.txt
    tiny-imagenet-200/train/<wnid>/images/*.JPEG
    tiny-imagenet-200/val/images/*.JPEG, val/val_annotations.txt     the test split: its own `test` has no labels

Classes are those of wnids.txt, sorted, as torchvision's ImageFolder would have them: seeded class orders then mean the
same as elsewhere. No official checksum of the archive is known, so nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lockgate.config import DataConfig
from lockgate.data.arrays import Arrays, Dataset, DataSize, UnreadArrays
from lockgate.data.images import image_files, read_files
from lockgate.data.preprocessing import Preprocessing
from lockgate.data.source import ENVIRONMENT, base_folder
from lockgate.errors import DataError

FOLDERS = ("tiny-imagenet-200", "tiny_imagenet/tiny-imagenet-200", "tiny_imagenet", "")
SIDE = 64
WNIDS, WORDS, ANNOTATIONS = "wnids.txt", "words.txt", "val_annotations.txt"
REMEDY = (
    "Get tiny-imagenet-200.zip (cs231n.stanford.edu), unpack it to DIR/tiny-imagenet-200/, and pass --data-dir DIR or "
    f"set {ENVIRONMENT}=DIR."
)


def size(data_dir: Path | None, config: DataConfig) -> DataSize:
    """As published; the arguments are not used."""
    return DataSize(images_per_class=500, classes=200, side=SIDE, channels=3)


def read(data_dir: Path | None, config: DataConfig) -> Dataset:
    """All classes as (N, 3, 64, 64); ``config`` is not used."""
    root = _root(base_folder(data_dir))
    wnids = sorted(set(_lines(root / WNIDS)))
    if len(wnids) < 2:
        raise DataError(f"{root / WNIDS} names {len(wnids)} classes; wanted at least two. {REMEDY}")
    return Dataset("tiny_imagenet", _names(root, wnids), _train(root, wnids), UnreadArrays(lambda: _val(root, wnids)))


def _root(base: Path | None) -> Path:
    if base is None:
        raise DataError(f"The data set 'tiny_imagenet' needs a folder. {REMEDY}")
    for folder in FOLDERS:
        if (base / folder / WNIDS).is_file():
            return base / folder
    looked = "\n".join(f"  - {base / folder}" for folder in FOLDERS)
    raise DataError(f"{WNIDS} was not found. Looked in:\n{looked}\n{REMEDY}")


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"Cannot read {path}: {error}. {REMEDY}") from error


def _names(root: Path, wnids: Sequence[str]) -> tuple[str, ...]:
    """The first word of each class, with its wnid where two have the same; wnids where words.txt is missing."""
    if not (root / WORDS).is_file():
        return tuple(wnids)
    words = dict(line.split("\t", 1) for line in _lines(root / WORDS) if "\t" in line)
    names = [words.get(wnid, wnid).split(",")[0].strip() for wnid in wnids]
    return tuple(f"{name} ({wnid})" if names.count(name) > 1 else name for name, wnid in zip(names, wnids, strict=True))


def _train(root: Path, wnids: Sequence[str]) -> Arrays:
    files, labels = list[Path](), list[int]()
    for label, wnid in enumerate(wnids):
        found = image_files(root / "train" / wnid / "images")
        files += found
        labels += [label] * len(found)
    return Arrays(read_files(files, Preprocessing(SIDE), what=str(root / "train")), np.array(labels, np.int64))


def _val(root: Path, wnids: Sequence[str]) -> Arrays:
    """Images in the order of val_annotations.txt: a file's name, its wnid and a box that is not used, by tabs."""
    path, files, labels = root / "val" / ANNOTATIONS, list[Path](), list[int]()
    position = {wnid: label for label, wnid in enumerate(wnids)}
    for number, line in enumerate(_lines(path), 1):
        name, _, rest = line.partition("\t")
        wnid = rest.partition("\t")[0]
        image = root / "val" / "images" / name
        if wnid not in position:
            raise DataError(f"Line {number} of {path} has the class {wnid!r}; wanted one of {WNIDS}. {REMEDY}")
        if Path(name).name != name or not image.is_file():
            raise DataError(f"Line {number} of {path} names {image}, which is not a file. {REMEDY}")
        files.append(image)
        labels.append(position[wnid])
    if not files:
        raise DataError(f"{path} names no image. {REMEDY}")
    return Arrays(read_files(files, Preprocessing(SIDE), what=str(root / "val")), np.array(labels, np.int64))
