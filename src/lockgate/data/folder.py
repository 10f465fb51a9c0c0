"""Your own images: ``train/<class>/*`` and ``test/<class>/*``, any type Pillow reads."""

from __future__ import annotations

from pathlib import Path

from lockgate.config import DataConfig
from lockgate.data.arrays import Arrays, Dataset, DataSize, UnreadArrays
from lockgate.data.images import class_folders, image_files, read_split
from lockgate.data.preprocessing import Preprocessing
from lockgate.data.source import ENVIRONMENT, base_folder
from lockgate.errors import DataError

LAYOUT = "DIR/train/<class>/<images> and DIR/test/<class>/<images>"


def size(data_dir: Path | None, config: DataConfig) -> DataSize:
    """By the files there are, of which none is opened; ``DataError`` where there is no such folder."""
    train = _base(data_dir) / "train"
    _require(train)
    counts = [len(image_files(train / name)) for name in _classes(train)]
    return DataSize(round(sum(counts) / len(counts)), len(counts), config.image_size, 1 if config.greyscale else 3)


def read(data_dir: Path | None, config: DataConfig) -> Dataset:
    """The images under ``data_dir`` (or LOCKGATE_DATA), as ``config`` wants them; classes sorted by name."""
    base = _base(data_dir)
    train, test = base / "train", base / "test"
    _require(train)
    classes, how = _classes(train), Preprocessing.of(config)

    def read_test() -> Arrays:
        _require(test)
        _check_same(classes, class_folders(test), train, test)
        return read_split(test, classes, how, config.in_memory)

    return Dataset("folder", tuple(classes), read_split(train, classes, how, config.in_memory), UnreadArrays(read_test))


def _base(data_dir: Path | None) -> Path:
    base = base_folder(data_dir)
    if base is None:
        raise DataError(f"The data set 'folder' needs a folder. Pass --data-dir DIR (or set {ENVIRONMENT}): {LAYOUT}.")
    return base


def _classes(train: Path) -> list[str]:
    classes = class_folders(train)
    if len(classes) < 2:
        raise DataError(f"{train} holds {len(classes)} class folders; wanted at least two. Wanted: {LAYOUT}.")
    return classes


def _require(split: Path) -> None:
    if not split.is_dir():
        raise DataError(f"There is no folder {split}. Wanted: {LAYOUT}, with the same classes in both.")


def _check_same(train_classes: list[str], test_classes: list[str], train: Path, test: Path) -> None:
    only_train = sorted(set(train_classes) - set(test_classes))
    only_test = sorted(set(test_classes) - set(train_classes))
    if not (only_train or only_test):
        return
    parts = [f"only in {f}: {', '.join(names)}" for f, names in ((train, only_train), (test, only_test)) if names]
    raise DataError(f"Training and test classes differ; {'; '.join(parts)}. Give both splits the same class folders.")
