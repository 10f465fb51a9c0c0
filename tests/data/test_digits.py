from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
from sklearn.datasets import load_digits

from lockgate.config import DataConfig
from lockgate.data import digits

SPLIT = "196383baef89cdb9059d8341459affb24898c964943baec92ea12272d4b658b5"


def test_shapes_and_shares():
    data = digits.read(None, DataConfig())
    assert (data.train.x.shape, data.test.x.shape) == ((1438, 1, 8, 8), (359, 1, 8, 8))
    assert (data.train.x.dtype, data.train.y.dtype) == (np.uint8, np.int64)
    assert data.classes == tuple("0123456789")
    counts = np.bincount(data.train.y) / np.bincount(load_digits().target)
    assert np.abs(counts - 0.8).max() < 0.005


def test_every_digit_is_in_exactly_one_split():
    data = digits.read(None, DataConfig())
    ours = np.concatenate([data.train.x, data.test.x]).reshape(-1, 64).astype(float)
    labels = np.concatenate([data.train.y, data.test.y])
    source = load_digits()
    restored = np.rint(ours * 16 / 255)
    rows = sorted((*row, label) for row, label in zip(restored.tolist(), labels.tolist(), strict=True))
    assert rows == sorted(
        (*row, label) for row, label in zip(source.data.tolist(), source.target.tolist(), strict=True)
    )
    assert (data.train.x.min(), data.train.x.max()) == (0, 255)


def test_split_never_changes():
    data = digits.read(None, DataConfig(class_seed=5))  # no seed has a say
    assert hashlib.sha256(data.test.x.tobytes() + data.test.y.tobytes()).hexdigest() == SPLIT


def test_reading_imports_no_torch():
    code = (
        "import sys, lockgate.data; from lockgate.config import DataConfig\n"
        "assert not {'torch', 'sklearn', 'scipy', 'PIL', 'pooch'} & set(sys.modules)\n"
        "lockgate.data.DATASETS['digits'](None, DataConfig())\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
