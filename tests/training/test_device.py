"""Fabric where something is trained; only the device where nothing is, without what Fabric costs to import."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from lockgate.config import Experiment, RuntimeConfig
from lockgate.errors import ConfigError
from lockgate.training.device import make_fabric

HERE = not (torch.cuda.is_available() or torch.backends.mps.is_available())
UNTRAINED = """
import sys
from lockgate.config import Experiment, RuntimeConfig
from lockgate.training.device import make_fabric
where = make_fabric(Experiment(runtime=RuntimeConfig(accelerator="cpu")), trains=False)
assert where.device.type == "cpu"
assert "lightning_fabric" not in sys.modules
"""


def test_what_is_solved_for_needs_a_device_and_no_fabric() -> None:
    subprocess.run([sys.executable, "-c", UNTRAINED], check=True)
    trained = make_fabric(Experiment(runtime=RuntimeConfig(accelerator="cpu")))
    assert trained.device.type == "cpu"
    assert hasattr(trained, "setup")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device here")
def test_a_device_that_is_not_here_is_refused_where_nothing_is_trained_too() -> None:
    with pytest.raises(ConfigError, match="'cuda' with 1 devices cannot be used"):
        make_fabric(Experiment(runtime=RuntimeConfig(accelerator="cuda")), trains=False)


@pytest.mark.skipif(not HERE, reason="'auto' is another device here")
def test_auto_is_the_cpu_where_there_is_nothing_else() -> None:
    assert make_fabric(Experiment(), trains=False).device == make_fabric(Experiment()).device
