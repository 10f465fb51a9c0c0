"""CIFAR-100's own: two labels a record, a hundred names. What it shares with CIFAR-10 is tested there."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from lockgate.config import DataConfig
from lockgate.data import cifar100
from lockgate.errors import DataError

NAMES = [f"thing_{i}" for i in range(100)]


def record(coarse: int, fine: int, image: np.ndarray) -> bytes:
    return bytes([coarse, fine]) + b"".join(bytes(image[c, row].tolist()) for c in range(3) for row in range(32))


def batch(seed: int, fine: list[int]) -> tuple[bytes, np.ndarray]:
    images = np.random.default_rng(seed).integers(0, 256, (len(fine), 3, 32, 32))
    return b"".join(record(y % 20, y, x) for x, y in zip(images, fine, strict=True)), images


@pytest.fixture
def folder(kept: Path) -> Path:
    inside = kept / "cifar-100-binary"
    inside.mkdir()
    (inside / "train.bin").write_bytes(batch(0, [99, 0, 42])[0])
    (inside / "test.bin").write_bytes(batch(1, [7, 98])[0])
    (inside / "fine_label_names.txt").write_text("\n".join(NAMES) + "\n\n")
    return kept


def test_fine_labels_and_their_names(folder, seal):
    seal()
    data = cifar100.read(folder, DataConfig())
    assert data.classes == tuple(NAMES)
    assert (data.train.y.tolist(), data.test.y.tolist()) == ([99, 0, 42], [7, 98])
    np.testing.assert_array_equal(data.train.x, batch(0, [99, 0, 42])[1])
    np.testing.assert_array_equal(data.test.x, batch(1, [7, 98])[1])


def test_the_archive_reads_the_same(folder, seal, tmp_path):
    seal()
    other = tmp_path / "other"
    other.mkdir()
    with tarfile.open(other / "cifar-100-binary.tar.gz", "w:gz") as tar:
        tar.add(folder / "cifar-100-binary", "cifar-100-binary")
    data = cifar100.read(other, DataConfig())
    assert (data.classes, data.train.y.tolist(), data.test.y.tolist()) == (tuple(NAMES), [99, 0, 42], [7, 98])


@pytest.mark.parametrize(
    ("file", "content", "pattern"),
    [
        ("train.bin", b"x" * 3073, "train.bin in .* holds 3,073 bytes; wanted a positive multiple of 3,074"),
        ("test.bin", record(0, 100, np.zeros((3, 32, 32), int)), "test.bin in .* the label 100 .*; wanted 0 to 99"),
        ("fine_label_names.txt", b"a b c", "fine_label_names.txt in .* holds 3 names, 3 of them different; wanted 100"),
        ("fine_label_names.txt", None, "fine_label_names.txt is missing in .* cifar-100-binary.tar.gz"),
        ("train.bin", None, "train.bin is missing in"),
        ("test.bin", None, "test.bin is missing in"),
    ],
)
def test_bad_files_are_named(folder, seal, file, content, pattern):
    path = folder / "cifar-100-binary" / file
    path.unlink() if content is None else path.write_bytes(content)
    seal()
    with pytest.raises(DataError, match=pattern):
        _ = cifar100.read(folder, DataConfig()).test.x


def test_test_images_are_not_read_before_they_are_wanted(folder, seal):
    (folder / "cifar-100-binary" / "test.bin").write_bytes(b"nothing of the kind")
    seal()
    assert len(cifar100.read(folder, DataConfig()).train.y) == 3
