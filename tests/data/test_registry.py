from __future__ import annotations

import inspect

import pytest

from lockgate.config import DataConfig
from lockgate.data import DATASETS
from lockgate.errors import DataError


@pytest.mark.parametrize("name", DATASETS)
def test_every_reader_has_the_same_signature(name):
    assert list(inspect.signature(DATASETS[name]).parameters) == ["data_dir", "config"]


OFFICIAL = ["mnist", "fashion_mnist", "svhn", "cifar10", "cifar100", "imagenet50", "tiny_imagenet"]


@pytest.mark.parametrize("name", [*OFFICIAL, "folder"])
def test_without_files_and_net_every_reader_says_what_to_do(name):
    with pytest.raises(DataError, match=r"--data-dir DIR"):
        DATASETS[name](None, DataConfig())
