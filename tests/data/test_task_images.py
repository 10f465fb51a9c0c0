"""Images a user brings: looked at, brought to one form, and refused with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.support.folders import images, write

from lockgate.data.preprocessing import Preprocessing
from lockgate.data.task_images import ArrayImages, FolderImages, ImageStats, as_pixels, fitted
from lockgate.errors import DataError


def test_a_folder_is_surveyed_and_read_in_the_order_of_names(tmp_path: Path) -> None:
    task_images = FolderImages(write(tmp_path / "pets", {"dog": 2, "cat": 3}))
    assert task_images.classes == ("cat", "dog")
    assert task_images.stats() == ImageStats(8, True)
    read = task_images.read(Preprocessing(8, greyscale=True))
    assert read.y.tolist() == [0, 0, 0, 1, 1]
    assert np.array_equal(read.x[:, 0], np.concatenate([images("cat", 3), images("dog", 2)]))


def test_one_colour_image_makes_a_task_colour_and_sizes_are_the_median_of_shorter_sides(tmp_path: Path) -> None:
    folder = write(tmp_path / "pets", {"cat": 1})
    Image.new("RGB", (30, 20), "red").save(folder / "cat" / "red.jpg")
    Image.new("L", (90, 64)).save(folder / "cat" / "grey.png")
    assert FolderImages(folder).stats() == ImageStats(20, False)


def test_every_bad_image_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "pets", {"cat": 2, "dog": 2})
    (folder / "cat" / "notes.png").write_text("not a picture")
    (folder / "dog" / "half.png").write_bytes((folder / "dog" / "000.png").read_bytes()[:40])
    task_images = FolderImages(folder)
    assert task_images.stats().side == 8
    with pytest.raises(DataError) as caught:
        task_images.read(Preprocessing(8, greyscale=True))
    assert "notes.png" in str(caught.value)
    assert "half.png" in str(caught.value)


@pytest.mark.parametrize(("make", "why"), [("nothing", "is not a folder"), ("flat", "has no sub-folders")])
def test_what_is_no_task_is_refused_with_the_layout_wanted(tmp_path: Path, make: str, why: str) -> None:
    if make == "flat":
        (tmp_path / "flat").mkdir()
        (tmp_path / "flat" / "a.png").touch()
    with pytest.raises(DataError, match=why + r".*FOLDER/cat/1\.jpg"):
        FolderImages(tmp_path / make)


@pytest.mark.parametrize("shape", [(5, 6, 7), (5, 6, 7, 1), (5, 6, 7, 3), (5, 1, 6, 7), (5, 3, 6, 7)])
def test_every_layout_of_arrays_comes_to_the_same_form(shape: tuple[int, ...]) -> None:
    made = as_pixels(np.random.default_rng(0).integers(0, 256, shape, np.uint8))
    assert made.dtype == np.uint8
    assert made.shape == (5, 6, 7, 3 if 3 in shape else 1)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, bool])
def test_numbers_of_other_types_are_scaled_to_bytes(kind: type) -> None:
    top = 255 if kind is np.int64 else 1
    made = as_pixels(np.array([[[0, top], [top, 0]]]).astype(kind))
    assert made[0, ..., 0].tolist() == [[0, 255], [255, 0]]


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.full((2, 4, 4), 2.0), "run from 2 to 2"),
        (np.full((2, 4, 4), -1), "run from -1"),
        (np.full((2, 4, 4), np.nan), "NaN or infinity"),
        (np.full((2, 4, 4), 300), "to 300"),
        (np.zeros((2, 4)), r"shape \(2, 4\)"),
        (np.zeros((0, 4, 4)), "none of them 0"),
        (np.zeros((4, 4, 0)), "none of them 0"),
        (np.zeros((2, 4, 4), complex), "Complex data not supported"),
        (np.zeros((2, 4, 4), object), "of type object"),
        (np.zeros((2, 4, 4, 4)), "one channel"),
    ],
)
def test_arrays_that_are_no_images_are_refused(array: np.ndarray, why: str) -> None:
    with pytest.raises(DataError, match=why):
        as_pixels(array)


def test_arrays_are_resized_like_files(tmp_path: Path) -> None:
    colour = np.random.default_rng(0).integers(0, 256, (2, 12, 10, 3), np.uint8)
    (tmp_path / "all" / "thing").mkdir(parents=True)
    for i, image in enumerate(colour):
        Image.fromarray(image).save(tmp_path / "all" / "thing" / f"{i}.png")
    for grey in (False, True):
        files = FolderImages(tmp_path / "all").read(Preprocessing(4, greyscale=grey))
        assert np.array_equal(fitted(as_pixels(colour), Preprocessing(4, greyscale=grey)), files.x)


def test_labels_are_numbers_or_text_one_an_image() -> None:
    x = np.zeros((4, 4, 4), np.uint8)
    numbers = ArrayImages(x, np.array([7, 3, 7, 3]))
    assert (numbers.classes, numbers.y.tolist(), numbers.integers) == (("3", "7"), [1, 0, 1, 0], True)
    text = ArrayImages(x, np.array(["b", "a", "b", "b"]))
    assert (text.classes, text.y.tolist(), text.integers) == (("a", "b"), [1, 0, 1, 1], False)
    with pytest.raises(DataError, match="one for each of the 4"):
        ArrayImages(x, np.array([1, 2]))
    with pytest.raises(DataError, match="all whole numbers or all text"):
        ArrayImages(x, np.array([0.5, 1, 2, 3]))
    for given, wanted in ([7, 3, 7, 3], ("3", "7")), (["b", "a", "b", "b"], ("a", "b")):
        assert ArrayImages(x, np.array(given, dtype=object)).classes == wanted
    with pytest.raises(DataError, match="Labels are of type int, str; wanted all whole numbers or all text"):
        ArrayImages(x, np.array([1, "a", 2, "b"], dtype=object))
