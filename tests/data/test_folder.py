from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lockgate.config import DataConfig
from lockgate.data import folder as dataset
from lockgate.errors import DataError

CLASSES = ("ant", "bee", "cat")


@pytest.fixture
def folder(kept: Path) -> Path:
    rng = np.random.default_rng(0)
    for split, count in (("train", 3), ("test", 2)):
        for name in CLASSES:
            (kept / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = rng.integers(0, 256, (10, 8, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(kept / split / name / f"{i}.png")
    return kept


def raises(folder: Path, pattern: str):
    with pytest.raises(DataError, match=pattern) as caught:
        _ = dataset.read(folder, DataConfig()).test.x
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(("greyscale", "channels"), [(True, 1), (False, 3)])
def test_shapes_and_labels(folder, seal, greyscale, channels):
    seal()
    data = dataset.read(folder, DataConfig(image_size=16, greyscale=greyscale))
    assert data.classes == CLASSES
    assert (data.train.x.shape, data.test.x.shape) == ((9, channels, 16, 16), (6, channels, 16, 16))
    assert data.train.y.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert (data.train.x.dtype, data.train.y.dtype) == (np.uint8, np.int64)


def test_same_bits_twice(folder, seal):
    seal()
    first, second = (dataset.read(folder, DataConfig()) for _ in range(2))
    np.testing.assert_array_equal(first.train.x, second.train.x)


def test_environment_names_the_folder(folder, seal, monkeypatch):
    seal()
    monkeypatch.setenv("LOCKGATE_DATA", str(folder))
    assert dataset.read(None, DataConfig()).classes == CLASSES


def test_no_folder_given():
    with pytest.raises(DataError, match=r"'folder' needs a folder. Pass --data-dir DIR"):
        dataset.read(None, DataConfig())


@pytest.mark.parametrize("split", ["train", "test"])
def test_missing_split(folder, seal, split):
    (folder / split).rename(folder / "away")
    seal()
    raises(folder, rf"There is no folder .*/{split}. Wanted: DIR/train/<class>/<images> and DIR/test/<class>/<images>")


def test_classes_differ(folder, seal):
    (folder / "test" / "cat").rename(folder / "test" / "dog")
    seal()
    raises(folder, r"only in .*train: cat; only in .*test: dog. Give both splits the same")


def test_no_classes(kept, seal):
    for split in ("train", "test"):
        (kept / split).mkdir()
        Image.new("L", (4, 4)).save(kept / split / "loose.png")
    seal()
    raises(kept, "train holds 0 class folders; wanted at least two")


def test_empty_class(folder, seal):
    for path in (folder / "test" / "bee").iterdir():
        path.unlink()
    seal()
    raises(folder, "class folder .*test/bee is empty")


def test_text_named_png(folder, seal):
    (folder / "train" / "bee" / "2.png").write_text("I am not an image.")
    seal()
    raises(folder, r"Cannot read the image .*train/bee/2.png: cannot identify image file")


def test_corrupt_image(folder, seal):
    path = folder / "test" / "ant" / "1.png"
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF  # inside the compressed pixels
    path.write_bytes(bytes(content[:-40]))
    seal()
    raises(folder, r"Cannot read the image .*test/ant/1.png: ")
