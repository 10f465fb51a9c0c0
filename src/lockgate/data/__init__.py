"""files to arrays. Every data set is a function ``(data_dir, config) -> Dataset`` of uint8 images in RAM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lockgate.config import DataConfig
from lockgate.data.arrays import Arrays, Dataset
from lockgate.registry import Entry, Registry

Reader = Callable[[Path | None, DataConfig], Dataset]

DATASETS: Registry[Reader] = Registry(
    "data set",
    {
        "digits": Entry(
            "lockgate.data.digits:read", "1,797 real 8x8 handwritten digits, embedded in scikit-learn: no download."
        ),
        "mnist": Entry("lockgate.data.mnist:read", "70,000 handwritten digits, 28x28 grey."),
        "fashion_mnist": Entry("lockgate.data.fashion_mnist:read", "70,000 pictures of clothes, 28x28 grey."),
        "svhn": Entry("lockgate.data.svhn:read", "99,289 cropped street-view house numbers, 32x32 colour."),
        "cifar10": Entry("lockgate.data.cifar10:read", "60,000 photographs of ten kinds of things, 32x32 colour."),
        "cifar100": Entry("lockgate.data.cifar100:read", "60,000 photographs of a hundred kinds, 32x32 colour."),
        "tiny_imagenet": Entry(
            "lockgate.data.tiny_imagenet:read", "110,000 images of 200 ILSVRC classes, 64x64; you bring the images."
        ),
        "imagenet50": Entry(
            "lockgate.data.imagenet50:read", "50 ILSVRC classes resized to 32x32; you bring the images."
        ),
        "folder": Entry("lockgate.data.folder:read", "Your own images: train/<class>/*, test/<class>/*."),
        "synthetic": Entry(
            "lockgate.data.synthetic:read",
            "Seeded class prototypes with noise, any number of classes, for tests and benchmarks.",
        ),
    },
    group="lockgate.datasets",
    check="lockgate.data.validation:reader_problems",
)

__all__ = ["DATASETS", "Arrays", "Dataset", "Reader"]
