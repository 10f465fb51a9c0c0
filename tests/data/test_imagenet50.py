from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lockgate.config import DataConfig
from lockgate.data import imagenet50
from lockgate.errors import DataError


def wnid(i: int) -> str:
    return f"n{i:08}"


def write(root: Path, classes: int) -> Path:
    """One train and one val image a class; the grey level is the number of the class."""
    for split in ("train", "val"):
        for i in range(classes):
            (root / split / wnid(i)).mkdir(parents=True)
            Image.new("RGB", (8, 6), (i, i, i)).save(root / split / wnid(i) / "x.JPEG", format="PNG")
    return root


def raises(folder: Path | None, pattern: str, config: DataConfig | None = None):
    with pytest.raises(DataError, match=pattern):
        _ = imagenet50.read(folder, config or DataConfig()).test.x


@pytest.mark.parametrize("place", imagenet50.FOLDERS)
def test_all_fifty_in_every_place(kept, seal, place):
    write(kept / place, 50)
    seal()
    data = imagenet50.read(kept, DataConfig())
    assert data.classes == tuple(wnid(i) for i in range(50))
    assert (data.train.x.shape, data.test.x.shape) == ((50, 3, 32, 32), (50, 3, 32, 32))
    assert data.train.x[:, 0, 0, 0].tolist() == data.train.y.tolist() == list(range(50))


def test_seeded_choice_among_more(kept, seal):
    write(kept, 60)
    (kept / "train" / "not a wnid").mkdir()
    seal()
    one, same, other = (imagenet50.read(kept, DataConfig(class_seed=s, image_size=4)) for s in (1, 1, 2))
    assert one.classes == same.classes != other.classes
    assert len(set(one.classes)) == 50
    assert list(one.classes) == sorted(one.classes)
    levels = [int(name[1:]) for name in one.classes]  # labels and images belong together
    assert one.train.x[:, 0, 0, 0].tolist() == one.test.x[:, 0, 0, 0].tolist() == levels


def test_named_classes_keep_their_order(kept, seal):
    write(kept, 5)
    seal()
    data = imagenet50.read(kept, DataConfig(wnids=(wnid(4), wnid(1)), image_size=8))
    assert data.classes == (wnid(4), wnid(1))
    assert data.train.x[:, 0, 0, 0].tolist() == [4, 1]


def test_no_folder_given():
    raises(None, r"needs a folder. Its licence does not allow us to fetch ImageNet.*DIR/imagenet50/train/<wnid>")


def test_nothing_there(kept, seal):
    seal()
    raises(kept, rf"Looked in:\n  - {kept}\n  - {kept}/imagenet50\n(.|\n)*--data-dir DIR")


def test_too_few_classes(kept, seal):
    write(kept, 3)
    seal()
    raises(kept, r"train holds 3 class folders; wanted at least 50. To use fewer, name them in 'data.wnids'")


def test_named_class_missing(kept, seal):
    write(kept, 3)
    seal()
    raises(kept, rf"train lacks the class folders {wnid(7)}\.", DataConfig(wnids=(wnid(1), wnid(7))))


def test_class_named_twice(kept, seal):
    write(kept, 3)
    seal()
    raises(kept, rf"names {wnid(1)} more than once", DataConfig(wnids=(wnid(1), wnid(2), wnid(1))))


def test_flat_validation_folder(kept, seal):
    write(kept, 50)
    for i in range(50):
        path = kept / "val" / wnid(i)
        (path / "x.JPEG").rename(kept / "val" / f"ILSVRC2012_val_{i:08}.JPEG")
        path.rmdir()
    seal()
    raises(kept, r"val lacks .* It holds images directly: sort them into one folder per wnid")


def test_real_imagenet50(real_data):
    data = imagenet50.read(real_data, DataConfig())
    assert (data.train.x.shape, data.test.x.shape) == ((12500, 3, 32, 32), (2500, 3, 32, 32))
    assert np.bincount(data.train.y).tolist() == [250] * 50
    assert np.bincount(data.test.y).tolist() == [50] * 50
    assert len(data.classes) == 50
