"""CIFAR-10 (Krizhevsky, 2009), binary release: one label byte a record (``data/cifar.py``)."""

from __future__ import annotations

from pathlib import Path

from lockgate.config import DataConfig
from lockgate.data import cifar
from lockgate.data.arrays import Dataset, DataSize
from lockgate.data.source import Release

TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST = "test_batch.bin"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
LAYOUT = cifar.Layout(
    name="cifar10",
    archive=Release(
        "cifar-10-binary.tar.gz",
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        (
            "https://www.cs.toronto.edu/~kriz/",
            "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
        ),
    ),
    inside="cifar-10-batches-bin",
    train=TRAIN,
    test=TEST,
    names="batches.meta.txt",
    count=len(CLASSES),
    known=CLASSES,
)


def size(data_dir: Path | None, config: DataConfig) -> DataSize:
    """As published; the arguments are not used."""
    return DataSize(images_per_class=5000, classes=10, side=32, channels=3)


def read(data_dir: Path | None, config: DataConfig) -> Dataset:
    """CIFAR-10 as (N, 3, 32, 32) images, from .bin files or from the archive; ``config`` is not used."""
    return cifar.read(LAYOUT, data_dir)
