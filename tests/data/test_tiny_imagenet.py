from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from lockgate.config import DataConfig
from lockgate.data import tiny_imagenet
from lockgate.errors import DataError

WNIDS = ("n03", "n01", "n02")  # in the order of wnids.txt, which is not sorted
WORDS = {"n01": "goldfish, Carassius auratus", "n02": "crane", "n03": "crane", "n99": "not here"}


@pytest.fixture
def root(kept: Path) -> Path:
    """Two training images a class and a validation image each; the grey level tells class and image."""
    root = kept / "tiny-imagenet-200"
    for wnid in WNIDS:
        images = root / "train" / wnid / "images"
        images.mkdir(parents=True)
        for i in range(2):
            level = 10 * int(wnid[1:]) + i
            Image.new("RGB", (64, 64), (level,) * 3).save(images / f"{wnid}_{i}.JPEG", format="PNG")
        (root / "train" / wnid / f"{wnid}_boxes.txt").write_text("a box")
    (root / "val" / "images").mkdir(parents=True)
    lines = []
    for i, wnid in enumerate(("n02", "n03", "n01")):
        Image.new("L", (64, 64), 100 + int(wnid[1:])).save(root / "val" / "images" / f"val_{i}.JPEG", format="PNG")
        lines.append(f"val_{i}.JPEG\t{wnid}\t0\t0\t44\t62")
    (root / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    (root / "wnids.txt").write_text("\n".join(WNIDS) + "\n")
    (root / "words.txt").write_text("\n".join(f"{wnid}\t{words}" for wnid, words in WORDS.items()) + "\n")
    return root


def test_images_labels_and_names(root, seal):
    seal()
    data = tiny_imagenet.read(root.parent, DataConfig())
    assert data.classes == ("goldfish", "crane (n02)", "crane (n03)")
    assert data.train.x.shape == (6, 3, 64, 64)
    assert data.train.y.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.train.x[:, 0, 0, 0].tolist() == [10, 11, 20, 21, 30, 31]
    assert data.test.y.tolist() == [1, 2, 0]
    assert data.test.x[:, 2, 63, 63].tolist() == [102, 103, 101]


def test_without_words_classes_are_called_by_their_wnids(root, seal):
    (root / "words.txt").unlink()
    seal()
    assert tiny_imagenet.read(root, DataConfig()).classes == ("n01", "n02", "n03")


def test_the_test_split_is_not_opened_before_it_is_wanted(root, seal):
    (root / "val" / "val_annotations.txt").unlink()
    seal()
    data = tiny_imagenet.read(root.parent, DataConfig())
    assert len(data.train.y) == 6
    with pytest.raises(DataError, match=r"Cannot read .*val/val_annotations.txt"):
        _ = data.test.x


def broken(root: Path, what: str) -> None:
    annotations = root / "val" / "val_annotations.txt"
    if what == "class":
        annotations.write_text("val_0.JPEG\tn77\t0\t0\t1\t1\n")
    elif what == "file":
        annotations.write_text("val_9.JPEG\tn01\t0\t0\t1\t1\n")
    elif what == "climbs":
        annotations.write_text("../val_annotations.txt\tn01\t0\t0\t1\t1\n")
    elif what == "none":
        annotations.write_text("\n")
    elif what == "folder":
        (root / "wnids.txt").write_text("n01\nn55\n")
    elif what == "image":
        (root / "train" / "n01" / "images" / "n01_0.JPEG").write_bytes(b"no image")


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("class", "Line 1 of .*val_annotations.txt has the class 'n77'; wanted one of wnids.txt"),
        ("file", r"Line 1 of .* names .*val/images/val_9.JPEG, which is not a file"),
        ("climbs", "Line 1 of .* which is not a file"),
        ("none", "val_annotations.txt names no image"),
        ("folder", "class folder .*train/n55/images does not exist"),
        ("image", "Cannot read the image .*n01_0.JPEG"),
    ],
)
def test_bad_files_are_named(root, seal, what, pattern):
    broken(root, what)
    seal()
    with pytest.raises(DataError, match=pattern):
        _ = tiny_imagenet.read(root.parent, DataConfig()).test.x


def test_nothing_there(kept, seal):
    seal()
    with pytest.raises(DataError, match=r"wnids.txt was not found. Looked in:(.|\n)*tiny-imagenet-200.zip"):
        tiny_imagenet.read(kept, DataConfig())
