"""What a run can be given in Python beside its experiment: objects, callbacks, silence; and a fresh folder."""

from __future__ import annotations

import itertools
import pickle
import re
from dataclasses import dataclass, replace
from pathlib import Path

from lockgate.config import Experiment
from lockgate.errors import ConfigError, RunFolderError
from lockgate.runs.objects import NOTHING, Objects
from lockgate.training.callbacks import Callback

RUNS = Path("runs")
"""Where runs go that are given no folder."""


@dataclass(frozen=True)
class Given:
    """What a run is given in Python."""

    objects: Objects = NOTHING
    callbacks: tuple[Callback, ...] = ()
    quiet: bool = False

    def require_sendable(self, devices: int) -> None:
        """Raise if there are several ranks, each a process, and something cannot be sent there."""
        if devices == 1:
            return
        try:
            pickle.dumps((replace(self.objects, scenario=None), self.callbacks))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                [
                    f"With {devices} devices, method, network and callbacks must be defined at the top of a module, so "
                    f"that other processes find them ({error}). Move them there, or use one device."
                ]
            ) from error


ALONE = Given()
"""Nothing beside the experiment."""


def fresh_folder(experiment: Experiment) -> Path:
    """Make an empty folder that says what the run is, e.g. ``runs/ccgn-digits-seed0``, and was not there before."""
    parts = (experiment.method, experiment.dataset, f"seed{experiment.seed}")
    name = "-".join(re.sub(r"[^\w.-]+", "-", part.rpartition(":")[2]) for part in parts)
    for number in itertools.count(1):
        path = RUNS / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise RunFolderError(
                f"Cannot make {path.absolute()}: {error.strerror}. Say where the run may go: `out`."
            ) from error
    raise AssertionError("numbers do not end")
