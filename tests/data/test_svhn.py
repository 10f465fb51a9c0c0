from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from lockgate.config import DataConfig
from lockgate.data import svhn
from lockgate.errors import DataError

LABELS = np.array([1, 2, 9, 10, 10, 3])


@pytest.fixture(params=[True, False], ids=["compressed", "plain"])
def folder(kept: Path, request: pytest.FixtureRequest) -> Path:
    (kept / "svhn").mkdir()
    for seed, name in enumerate(("train", "test")):
        write(kept, name, images(seed), LABELS, request.param)
    return kept


def images(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (6, 3, 32, 32)).astype(np.uint8)


def write(folder: Path, name: str, x: np.ndarray, y: np.ndarray, compressed: bool = True) -> None:
    content = {"X": x.transpose(2, 3, 1, 0), "y": y[:, None]}
    savemat(folder / "svhn" / f"{name}_32x32.mat", content, do_compression=compressed)


def raises(folder: Path, pattern: str):
    with pytest.raises(DataError, match=pattern) as caught:
        _ = svhn.read(folder, DataConfig()).test.x
    assert str(folder) in str(caught.value)


def test_reads_what_was_written_and_ten_is_zero(folder, seal):
    seal()
    data = svhn.read(folder, DataConfig())
    np.testing.assert_array_equal(data.train.x, images(0))
    np.testing.assert_array_equal(data.test.x, images(1))
    assert data.train.y.tolist() == [1, 2, 9, 0, 0, 3]
    assert data.classes == tuple("0123456789")
    assert (data.train.x.dtype, data.train.y.dtype) == (np.uint8, np.int64)
    assert data.train.x.flags.c_contiguous


def test_missing_file(folder, seal):
    (folder / "svhn" / "test_32x32.mat").unlink()
    seal()
    raises(folder, r"test_32x32.mat was not found. Looked in")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_truncated_mat(folder, seal, share):
    path = folder / "svhn" / "train_32x32.mat"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    seal()
    raises(folder, "train_32x32.mat.*official file")


def test_not_a_mat(folder, seal):
    (folder / "svhn" / "train_32x32.mat").write_text("<html>not found</html>" * 100)
    seal()
    raises(folder, "Cannot read .*train_32x32.mat: ")


def test_missing_variable(folder, seal):
    savemat(folder / "svhn" / "train_32x32.mat", {"X": images(0), "labels": LABELS})
    seal()
    raises(folder, "must hold the variables X and y. Got X instead")


def test_count_of_labels_differs(folder, seal):
    write(folder, "train", images(0), LABELS[:5])
    seal()
    raises(folder, "6 images and 5 labels")


@pytest.mark.parametrize("label", [0, 11])
def test_label_out_of_range(folder, seal, label):
    write(folder, "train", images(0), np.where(LABELS == 9, label, LABELS))
    seal()
    raises(folder, f"holds the label {label} at position 2; wanted 1 to 10")


def test_wrong_size(folder, seal):
    write(folder, "train", images(0)[:, :, :31], LABELS)
    seal()
    raises(folder, r"must be \(32, 32, 3, N\) of uint8. Got \(31, 32, 3, 6\) of uint8 instead")


def test_wrong_type(folder, seal):
    write(folder, "train", images(0) / 255, LABELS)
    seal()
    raises(folder, r"Got \(32, 32, 3, 6\) of float64 instead")


def test_real_svhn(real_data):
    data = svhn.read(real_data, DataConfig())
    assert (data.train.x.shape, data.test.x.shape) == ((73257, 3, 32, 32), (26032, 3, 32, 32))
    assert np.bincount(data.train.y)[:2].tolist() == [4948, 13861]
