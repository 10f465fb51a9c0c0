"""What every test shares."""

from __future__ import annotations

import os
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, here and in processes that tests start

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("untimed", deadline=None)  # a busy machine is no fault of ours
hypothesis.settings.load_profile("untimed")

pytest_plugins = ["tests.support.run_fixtures"]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tensors in tests are tiny: threads would only wait for one another."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
