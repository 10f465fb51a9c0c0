"""Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017): ten kinds of clothes in the files of MNIST (``data/idx.py``).

The paper has no such table. Nobody chose a setting of ours by it, which is what it is here for.
"""

from __future__ import annotations

from pathlib import Path

from lockgate.config import DataConfig
from lockgate.data import idx
from lockgate.data.arrays import Dataset, DataSize

LAYOUT = idx.Layout(
    name="fashion_mnist",
    folders=("fashion_mnist", "fashion-mnist", "FashionMNIST/raw", "FashionMNIST"),
    classes=("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"),
    files=idx.releases(
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
)


def size(data_dir: Path | None, config: DataConfig) -> DataSize:
    """As published; the arguments are not used."""
    return idx.as_published()


def read(data_dir: Path | None, config: DataConfig) -> Dataset:
    """Fashion-MNIST as (N, 1, 28, 28) images; ``config`` is not used."""
    return idx.read(LAYOUT, data_dir)
