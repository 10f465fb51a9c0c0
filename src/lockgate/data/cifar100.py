"""CIFAR-100 (Krizhevsky, 2009), binary release: a coarse and a fine label byte a record, of which the fine one counts.

The release's own page prints the MD5 of the archive, 03b5dce01913d631647c71ecec9e9cb8. Its SHA-256 is the one that
other projects check (MLDatasets.jl and GoMLX among them); it has not been checked against a download of our own.
"""

from __future__ import annotations

from pathlib import Path

from lockgate.config import DataConfig
from lockgate.data import cifar
from lockgate.data.arrays import Dataset, DataSize
from lockgate.data.source import Release

LAYOUT = cifar.Layout(
    name="cifar100",
    archive=Release(
        "cifar-100-binary.tar.gz",
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        ("https://www.cs.toronto.edu/~kriz/",),
    ),
    inside="cifar-100-binary",
    train=("train.bin",),
    test="test.bin",
    names="fine_label_names.txt",
    count=100,
    label_bytes=2,
)


def size(data_dir: Path | None, config: DataConfig) -> DataSize:
    """As published; the arguments are not used."""
    return DataSize(images_per_class=500, classes=100, side=32, channels=3)


def read(data_dir: Path | None, config: DataConfig) -> Dataset:
    """CIFAR-100 as (N, 3, 32, 32) images of 100 classes, from .bin files or the archive; ``config`` is not used."""
    return cifar.read(LAYOUT, data_dir)
