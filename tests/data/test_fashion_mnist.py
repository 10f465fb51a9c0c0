from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.data.test_mnist import idx

from lockgate.config import DataConfig
from lockgate.data import fashion_mnist, mnist
from lockgate.data.idx import STEMS
from lockgate.errors import DataError


def write(folder: Path, count: int) -> np.ndarray:
    """The four files, unpacked; the images."""
    folder.mkdir(parents=True)
    images = np.random.default_rng(1).integers(0, 256, (count, 28, 28))
    for stem, axes in STEMS:
        content = images if axes == 3 else np.arange(count) % 10
        (folder / f"{stem}-idx{axes}-ubyte").write_bytes(idx(content))
    return images


@pytest.mark.parametrize("place", ["fashion_mnist", "FashionMNIST/raw"])
def test_clothes_are_read_as_digits_are_under_names_of_their_own(tmp_path: Path, place: str) -> None:
    images = write(tmp_path / place, 12)
    data = fashion_mnist.read(tmp_path, DataConfig())
    np.testing.assert_array_equal(data.train.x[:, 0], images)
    np.testing.assert_array_equal(data.test.x[:, 0], images)
    assert (data.name, data.classes[0], data.classes[9]) == ("fashion_mnist", "t-shirt", "ankle boot")


def test_digits_are_never_taken_for_clothes(tmp_path: Path) -> None:
    write(tmp_path / "mnist", 3)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz .* was not found"):
        fashion_mnist.read(tmp_path, DataConfig())


def test_checksums_are_of_other_files() -> None:
    ours, theirs = ({file.sha256 for file in layout.files} for layout in (fashion_mnist.LAYOUT, mnist.LAYOUT))
    assert len(ours | theirs) == 8
