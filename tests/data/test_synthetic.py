from __future__ import annotations

import time

import numpy as np

from lockgate.config import DataConfig
from lockgate.data import synthetic


def nearest_mean(data) -> float:
    means = np.stack([data.train.x[data.train.y == c].mean(0).ravel() for c in range(len(data.classes))])
    test = data.test.x.reshape(len(data.test.x), -1).astype(float)
    guess = [((means - image) ** 2).sum(1).argmin() for image in test]
    return float((guess == data.test.y).mean())


def test_shapes():
    data = synthetic.read(None, DataConfig(synthetic_classes=7, synthetic_per_class=12))
    assert (data.train.x.shape, data.test.x.shape) == ((84, 3, 16, 16), (14, 3, 16, 16))
    assert (data.train.x.dtype, data.train.y.dtype) == (np.uint8, np.int64)
    assert np.bincount(data.train.y).tolist() == [12] * 7
    assert len(set(data.classes)) == 7


def test_seed_decides_every_bit():
    one, same, other = (synthetic.read(None, DataConfig(class_seed=s)) for s in (3, 3, 4))
    np.testing.assert_array_equal(one.train.x, same.train.x)
    np.testing.assert_array_equal(one.test.x, same.test.x)
    assert (one.train.x != other.train.x).any()


def test_more_classes_leave_the_first_as_they_were():
    few, many = (synthetic.read(None, DataConfig(synthetic_classes=c)) for c in (3, 6))
    np.testing.assert_array_equal(few.train.x, many.train.x[: len(few.train.x)])


def test_training_and_test_images_differ():
    data = synthetic.read(None, DataConfig())
    assert not {x.tobytes() for x in data.train.x} & {x.tobytes() for x in data.test.x}


def test_learnable_but_not_trivial():
    data = synthetic.read(None, DataConfig())
    assert 0.6 < nearest_mean(data) < 0.97  # chance is 0.1


def test_two_hundred_classes_are_fast():
    start = time.perf_counter()
    data = synthetic.read(None, DataConfig(synthetic_classes=200))
    assert time.perf_counter() - start < 10  # half a second when the machine is idle
    assert len(data.train.x) == 20_000
