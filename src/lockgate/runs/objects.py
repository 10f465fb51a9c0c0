"""Data, method and network that a run is given as objects instead of names: no file can hold them, so its folder notes
that they were, and whoever goes on with the run passes them again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from lockgate.backbones.base import Backbone
from lockgate.backbones.validation import factory_problems, make_backbone
from lockgate.config import Experiment, ModelConfig
from lockgate.errors import ConfigError, RunFolderError
from lockgate.layers.plain import LayerFactory
from lockgate.methods.base import Method
from lockgate.scenario import Scenario

OWN_DATA = "own-data"
"""What ``Experiment.dataset`` says of a scenario that was given."""

NetworkFactory = Callable[..., nn.Module]
"""Is given ``image_shape``, ``layer_factory`` and ``config``, as far as it takes them."""


@dataclass(frozen=True)
class Network:
    """A network that was given: a module to begin with, of which every learner has a copy, or what makes one."""

    source: nn.Module | NetworkFactory

    def __post_init__(self) -> None:
        problems = [] if isinstance(self.source, nn.Module) else factory_problems(self.source)
        if problems:
            raise ConfigError([f"'network' {problem}" for problem in problems])

    def __call__(self, image_shape: tuple[int, int, int], layer_factory: LayerFactory, config: ModelConfig) -> Backbone:
        """The network of one learner."""
        source = self.source
        made = (lambda: copy.deepcopy(source)) if isinstance(source, nn.Module) else source
        return make_backbone(made, _name(source), image_shape, layer_factory, config)


@dataclass(frozen=True)
class Objects:
    """What a run is given as objects; None: the experiment names it."""

    scenario: Scenario | None = None
    method: type[Method] | None = None
    network: Network | None = None

    def note(self) -> dict[str, str]:
        """What was given, by name: for the run folder."""
        named: dict[str, Any] = {"method": self.method, "network": self.network and self.network.source}
        note = {} if self.scenario is None else {"scenario": OWN_DATA}
        return note | {key: _name(value) for key, value in named.items() if value is not None}

    def described(self, experiment: Experiment) -> Experiment:
        """``experiment`` with the names of what was given in the place of what it names."""
        note = self.note()
        if self.scenario is not None:
            experiment = replace(experiment, dataset=OWN_DATA, tasks=len(self.scenario.tasks))
        return replace(
            experiment,
            method=note.get("method", experiment.method),
            backbone=note.get("network", experiment.backbone),
        )


NOTHING = Objects()


def require_objects(folder: Path, noted: Mapping[str, str], given: Objects, data: bool = True) -> None:
    """Raise unless what a run was ``noted`` to be made with is given again; without ``data``, images are not needed."""
    now = given.note()
    missing = {key: name for key, name in noted.items() if key not in now and (data or key != "scenario")}
    if missing:
        what = " and ".join(f"{key} ({name})" for key, name in missing.items())
        again = ", ".join(f"{key}=..." for key in missing)
        raise RunFolderError(
            f"{folder} was made in Python with an object as its {what}, which no file holds. "
            f"Go on in Python and pass the same again: lockgate.resume({str(folder)!r}, {again}); "
            "lockgate.load and lockgate.audit take it too."
        )
    for key, name in now.items():
        before = noted.get(key)
        if before is None:
            raise RunFolderError(f"{folder} was made with a {key} that its config.yaml names. Leave `{key}` out.")
        if _last(before) != _last(name):
            raise RunFolderError(f"{folder} was made with the {key} {before}. Got {name} instead; pass the same again.")


def _name(thing: Any) -> str:
    """``package.module:Class`` of a class or a function, or of the class of anything else."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}:{named.__qualname__}"


def _last(name: str) -> str:
    """The name alone: a script and who imports it see the same class in different modules."""
    return name.replace(":", ".").rpartition(".")[2]
