"""MNIST (LeCun, Cortes and Burges): ten handwritten digits (``data/idx.py``)."""

from __future__ import annotations

from pathlib import Path

from lockgate.config import DataConfig
from lockgate.data import idx
from lockgate.data.arrays import Dataset, DataSize

LAYOUT = idx.Layout(
    name="mnist",
    folders=("mnist", "MNIST/raw", "MNIST", ""),
    classes=tuple(str(digit) for digit in range(10)),
    files=idx.releases(
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
)


def size(data_dir: Path | None, config: DataConfig) -> DataSize:
    """As published; the arguments are not used."""
    return idx.as_published()


def read(data_dir: Path | None, config: DataConfig) -> Dataset:
    """MNIST as (N, 1, 28, 28) images; ``config`` is not used."""
    return idx.read(LAYOUT, data_dir)
