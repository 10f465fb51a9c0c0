from __future__ import annotations

import gzip
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from lockgate.config import DataConfig
from lockgate.data import idx as idx_files
from lockgate.data import mnist
from lockgate.errors import DataError

STEMS = {"train": 7, "t10k": 3}


def idx(array: np.ndarray) -> bytes:
    """The idx format, written independently of the reader."""
    header = struct.pack(">HBB", 0, 8, array.ndim) + b"".join(struct.pack(">I", size) for size in array.shape)
    return header + bytes(array.astype(np.uint8).ravel().tolist())


@pytest.fixture
def folder(kept: Path) -> Path:
    rng = np.random.default_rng(0)
    (kept / "mnist").mkdir()
    for stem, count in STEMS.items():
        write(kept, f"{stem}-images-idx3-ubyte", idx(rng.integers(0, 256, (count, 28, 28))))
        write(kept, f"{stem}-labels-idx1-ubyte", idx(np.arange(count)))
    return kept


def write(folder: Path, name: str, content: bytes) -> None:
    (folder / "mnist" / name).write_bytes(content)


def raises(folder: Path, pattern: str):
    with pytest.raises(DataError, match=pattern) as caught:
        _ = mnist.read(folder, DataConfig()).test.x
    assert str(folder) in str(caught.value)


def test_reads_what_was_written(folder, seal):
    seal()
    data = mnist.read(folder, DataConfig())
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(data.train.x[:, 0], rng.integers(0, 256, (7, 28, 28)))
    np.testing.assert_array_equal(data.test.x[:, 0], rng.integers(0, 256, (3, 28, 28)))
    assert data.train.y.tolist() == list(range(7))
    assert data.classes == tuple("0123456789")
    assert (data.train.x.dtype, data.train.y.dtype) == (np.uint8, np.int64)
    assert data.train.x.flags.writeable


@pytest.mark.parametrize("place", ["mnist", "MNIST/raw", "MNIST", "."])
def test_gzipped_files_in_every_place(folder, seal, tmp_path, place):
    seal()
    other = tmp_path / "other" / place
    other.mkdir(parents=True)
    for path in (folder / "mnist").iterdir():
        (other / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    np.testing.assert_array_equal(
        mnist.read(tmp_path / "other", DataConfig()).train.x, mnist.read(folder, DataConfig()).train.x
    )


def test_unpacked_content_under_a_gz_name(folder, seal):
    path = folder / "mnist" / "train-images-idx3-ubyte"
    path.rename(path.with_name(path.name + ".gz"))
    seal()
    assert len(mnist.read(folder, DataConfig()).train.x) == 7


@settings(max_examples=50, deadline=None)
@given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=3, max_side=6)), st.booleans())
def test_idx_round_trip(array, packed):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
        np.testing.assert_array_equal(idx_files.read_idx(path, array.ndim), array)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_idx_cut_anywhere_is_refused(data):
    content = idx(np.arange(12).reshape(3, 2, 2))
    packed = data.draw(st.booleans())
    content = gzip.compress(content) if packed else content
    cut = data.draw(st.integers(0, len(content) - 1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(content[:cut])
        with pytest.raises(DataError, match="official file"):
            idx_files.read_idx(path, 3)


def test_missing_file(folder, seal):
    (folder / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    seal()
    raises(folder, r"t10k-labels-idx1-ubyte.gz or .* was not found. Looked in")


def test_no_files_and_no_net_names_every_mirror():
    with pytest.raises(DataError) as caught:
        _ = mnist.read(None, DataConfig()).test.x
    for mirror in mnist.LAYOUT.files[0].mirrors:
        assert f"{mirror}train-images-idx3-ubyte.gz" in str(caught.value)
    assert "DIR/mnist/" in str(caught.value)


def test_truncated_gzip(folder, seal):
    write(folder, "train-images-idx3-ubyte.gz", gzip.compress(bytes(9000))[:20])
    seal()
    raises(folder, "train-images-idx3-ubyte.gz: .* truncated or damaged")


def test_truncated_idx(folder, seal):
    write(folder, "train-images-idx3-ubyte", idx(np.zeros((7, 28, 28)))[:-1])
    seal()
    raises(folder, r"5,487 bytes of values, but its header announces 7 x 28 x 28 = 5,488")


def test_bytes_too_many(folder, seal):
    write(folder, "t10k-labels-idx1-ubyte", idx(np.arange(3)) + b"\0")
    seal()
    raises(folder, r"holds 4 bytes of values, but its header announces 3 = 3")


def test_wrong_magic(folder, seal):
    write(folder, "train-images-idx3-ubyte", idx(np.arange(7)))
    seal()
    raises(folder, r"begins with 00 00 08 01; an idx3 file with 00 00 08 03")


def test_labels_of_another_split(folder, seal):
    write(folder, "train-labels-idx1-ubyte", idx(np.arange(3)))
    seal()
    raises(folder, r"7 images and .*train-labels-idx1-ubyte 3 labels.*same release")


def test_label_out_of_range(folder, seal):
    write(folder, "train-labels-idx1-ubyte", idx(np.array([0, 1, 2, 10, 4, 5, 6])))
    seal()
    raises(folder, "holds the label 10 at position 3; wanted 0 to 9")


def test_wrong_size(folder, seal):
    write(folder, "train-images-idx3-ubyte", idx(np.zeros((7, 27, 28))))
    seal()
    raises(folder, "27x28 pixels, wanted 28x28")


def test_empty_files(folder, seal):
    write(folder, "t10k-images-idx3-ubyte", idx(np.zeros((0, 28, 28))))
    write(folder, "t10k-labels-idx1-ubyte", idx(np.zeros(0)))
    seal()
    raises(folder, "at least one")


def test_real_mnist(real_data):
    data = mnist.read(real_data, DataConfig())
    assert (data.train.x.shape, data.test.x.shape) == ((60000, 1, 28, 28), (10000, 1, 28, 28))
    assert data.train.y[:5].tolist() == [5, 0, 4, 1, 9]  # as on every picture of MNIST
    assert np.bincount(data.test.y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
