"""Devices, precision and data-parallel ranks through Lightning Fabric, and the C allocator on CPU."""

from __future__ import annotations

import ctypes
import inspect
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from lockgate.config import Experiment
from lockgate.errors import ConfigError, ExactnessError

TUNE = "LOCKGATE_TUNE_ALLOCATOR"
"""Environment variable: 0 leaves the C allocator alone, whatever command is given."""
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


class OnlyDevice(NamedTuple):
    """In the place of a Fabric where nothing is trained and nobody is to be spoken to."""

    device: torch.device


def make_fabric(experiment: Experiment, trains: bool = True) -> Any:
    """A Fabric for the experiment's devices. Imported late, and only where something ``trains``: it costs seconds."""
    if not trains and experiment.devices == 1 and _on_cpu(experiment):
        return OnlyDevice(torch.device("cpu"))
    logging.getLogger("lightning_fabric").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning_fabric")
    from lightning_fabric import Fabric
    from lightning_fabric.strategies import DDPStrategy

    runtime = experiment.runtime
    strategy: Any = "auto"
    if experiment.devices > 1:
        # The loop shares buffers every few steps (``SHARE_EVERY``), not before each. Newer torch renamed it.
        known = inspect.signature(torch.nn.parallel.DistributedDataParallel.__init__).parameters
        sync = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        strategy = DDPStrategy(start_method="spawn", **{sync: False})
    try:
        return Fabric(
            accelerator=runtime.accelerator, devices=experiment.devices, strategy=strategy, precision=runtime.precision
        )
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            [f"'runtime.accelerator' {runtime.accelerator!r} with {experiment.devices} devices cannot be used: {error}"]
        ) from error


def prepare_process(experiment: Experiment) -> bool:
    """Threads and allocator of this process; whether the allocator was tuned."""
    runtime = experiment.runtime
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False  # same seed, same bits
    if runtime.threads:
        torch.set_num_threads(runtime.threads)
    return runtime.tune_allocator and _on_cpu(experiment) and os.environ.get(TUNE) != "0" and tune_allocator()


def _on_cpu(experiment: Experiment) -> bool:
    others = torch.cuda.is_available() or torch.backends.mps.is_available()
    return experiment.runtime.accelerator == "cpu" or (experiment.runtime.accelerator == "auto" and not others)


def promised_on(ends: Sequence[dict[str, Any]]) -> torch.device:
    """The device on which the answers of the tasks that left the records ``ends`` were promised to stay."""
    return torch.device(ends[-1].get("device", "cpu") if ends else "cpu")


def require_promised(ends: Sequence[dict[str, Any]], device: torch.device, what: str) -> None:
    """Raise if ``what`` is to go on where answers are not computed to the bit as they were promised."""
    wanted = promised_on(ends).type
    if any(end["promise"] for end in ends) and wanted != device.type:
        raise ExactnessError(
            f"{what} promised its answers on {wanted!r}, and this process computes on {device.type!r}: bits differ "
            f"from device to device. Go on where there is {wanted!r}, and ask for it (`runtime.accelerator`, --device)."
        )


def is_here(device: torch.device) -> bool:
    """Whether this machine has such a device."""
    here = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return here.get(device.type, False)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """``count`` threads of torch (0: as many as now): kernels depend on their number, and bits on kernels."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def tune_allocator() -> bool:
    """Tell glibc to keep large blocks instead of mapping and faulting them in anew each step; False where it cannot.

    A batch's activations are tens of megabytes, above malloc's mmap threshold.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # musl and others have no mallopt
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
