from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.config import DataConfig
from lockgate.data import cifar, cifar10
from lockgate.errors import DataError


def record(label: int, image: np.ndarray) -> bytes:
    """One record, written independently of the reader: label, then red, green, blue plane, row by row."""
    return bytes([label]) + b"".join(bytes(image[c, row].tolist()) for c in range(3) for row in range(32))


def batch(seed: int, count: int = 2) -> tuple[bytes, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    images, labels = rng.integers(0, 256, (count, 3, 32, 32)), rng.integers(0, 10, count)
    return b"".join(record(int(y), x) for x, y in zip(images, labels, strict=True)), images, labels


@pytest.fixture
def folder(kept: Path) -> Path:
    inside = kept / "cifar-10-batches-bin"
    inside.mkdir()
    for seed, name in enumerate((*cifar10.TRAIN, cifar10.TEST)):
        (inside / name).write_bytes(batch(seed)[0])
    return kept


def archive(path: Path, inside: Path, *extra: tarfile.TarInfo) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for info in extra:
            tar.addfile(info, io.BytesIO(b"x" * info.size))
        tar.add(inside, "cifar-10-batches-bin")


def raises(folder: Path, pattern: str):
    with pytest.raises(DataError, match=pattern) as caught:
        _ = cifar10.read(folder, DataConfig()).test.x
    assert str(folder) in str(caught.value)


def test_reads_what_was_written(folder, seal):
    seal()
    data = cifar10.read(folder, DataConfig())
    np.testing.assert_array_equal(data.train.x, np.concatenate([batch(seed)[1] for seed in range(5)]))
    np.testing.assert_array_equal(data.train.y, np.concatenate([batch(seed)[2] for seed in range(5)]))
    np.testing.assert_array_equal(data.test.x, batch(5)[1])
    assert data.classes == cifar10.CLASSES
    assert (data.train.x.dtype, data.train.y.dtype) == (np.uint8, np.int64)
    assert data.test.x.flags.writeable


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 2**32))
def test_records_round_trip(labels, seed):
    images = np.random.default_rng(seed).integers(0, 256, (len(labels), 3, 32, 32))
    parsed = cifar.parse(cifar10.LAYOUT, b"".join(record(y, x) for x, y in zip(images, labels, strict=True)), "test")
    np.testing.assert_array_equal(parsed.x, images)
    assert parsed.y.tolist() == labels


def test_archive_reads_the_same_and_unpacks_nothing(folder, seal, tmp_path):
    other = tmp_path / "other"
    (other / "cifar10").mkdir(parents=True)
    archive(other / "cifar10" / "cifar-10-binary.tar.gz", folder / "cifar-10-batches-bin")
    seal()
    data = cifar10.read(other, DataConfig())
    np.testing.assert_array_equal(data.train.x, cifar10.read(folder, DataConfig()).train.x)
    assert [path.name for path in other.rglob("*")] == ["cifar10", "cifar-10-binary.tar.gz"]


def test_hostile_archive_members_are_passed_over(folder, seal, tmp_path):
    climbing, link, absolute = (
        tarfile.TarInfo(name) for name in ("../test_batch.bin", "cifar-10-batches-bin/test_batch.bin", "/tmp/evil.bin")
    )
    climbing.size = absolute.size = 3
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    other = tmp_path / "other"
    other.mkdir()
    archive(other / "cifar-10-binary.tar.gz", folder / "cifar-10-batches-bin", climbing, link, absolute)
    seal()
    np.testing.assert_array_equal(cifar10.read(other, DataConfig()).test.x, batch(5)[1])
    assert [path.name for path in other.rglob("*")] == ["cifar-10-binary.tar.gz"]
    assert not (tmp_path / "test_batch.bin").exists()


def test_class_names_come_from_the_release(folder, seal):
    (folder / "cifar-10-batches-bin" / "batches.meta.txt").write_text("\n".join("abcdefghij") + "\n\n")
    seal()
    assert cifar10.read(folder, DataConfig()).classes == tuple("abcdefghij")


def test_wrong_number_of_class_names(folder, seal):
    (folder / "cifar-10-batches-bin" / "batches.meta.txt").write_text("a b c")
    seal()
    raises(folder, "batches.meta.txt in .* holds 3 names, 3 of them different; wanted 10")


def test_a_name_twice(folder, seal):
    (folder / "cifar-10-batches-bin" / "batches.meta.txt").write_text("a b c d e f g h i j j")
    seal()
    raises(folder, "batches.meta.txt in .* holds 11 names, 10 of them different; wanted 10")


def test_nothing_there(kept, seal):
    seal()
    raises(kept, r"cifar-10-binary.tar.gz or data_batch_1.bin was not found. Looked in")


def test_missing_batch(folder, seal):
    (folder / "cifar-10-batches-bin" / "data_batch_4.bin").unlink()
    seal()
    raises(folder, "data_batch_4.bin is missing in")


@pytest.mark.parametrize("size", [0, 3072, 2 * 3073 - 1])
def test_truncated_batch(folder, seal, size):
    (folder / "cifar-10-batches-bin" / "data_batch_2.bin").write_bytes(batch(1)[0][:size])
    seal()
    raises(folder, rf"data_batch_2.bin in .* holds {size:,} bytes; wanted a positive multiple of 3,073")


def test_label_out_of_range(folder, seal):
    image = np.zeros((3, 32, 32), int)
    (folder / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(record(9, image) + record(10, image))
    seal()
    raises(folder, "test_batch.bin in .* holds the label 10 at image 1; wanted 0 to 9")


@pytest.mark.parametrize("damage", [lambda content: content[: len(content) // 2], lambda content: b"<html>not found"])
def test_damaged_archive(folder, seal, tmp_path, damage):
    seal()
    path = tmp_path / "other" / "cifar-10-binary.tar.gz"
    path.parent.mkdir()
    archive(path, folder / "cifar-10-batches-bin")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=rf"Cannot read {path}: .* Replace it"):
        cifar10.read(path.parent, DataConfig())


def test_a_flipped_bit_in_an_archive_is_noticed(folder, seal, tmp_path):
    seal()
    path = tmp_path / "other" / "cifar-10-binary.tar.gz"
    path.parent.mkdir()
    archive(path, folder / "cifar-10-batches-bin")
    good = path.read_bytes()
    for place in range(200, len(good) - 200, len(good) // 20):
        content = bytearray(good)
        content[place] ^= 4
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"Cannot read {path}: .* Replace it"):
            cifar10.read(path.parent, DataConfig())


def test_real_cifar10(real_data):
    data = cifar10.read(real_data, DataConfig())
    assert (data.train.x.shape, data.test.x.shape) == ((50000, 3, 32, 32), (10000, 3, 32, 32))
    assert np.bincount(data.train.y).tolist() == [5000] * 10
    assert data.train.y[:4].tolist() == [6, 9, 9, 4]  # frog, truck, truck, deer
    # The channel means everybody normalises with.
    assert (data.train.x.mean((0, 2, 3)) / 255).round(4).tolist() == [0.4914, 0.4822, 0.4465]
