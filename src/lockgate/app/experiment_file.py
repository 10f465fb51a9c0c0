"""Experiments as people write them: keywords, or a YAML file; on top of a preset, if one is named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockgate.config import Experiment, leaves, merge, read_yaml
from lockgate.data import DATASETS
from lockgate.data.size import TaskSize
from lockgate.errors import ConfigError
from lockgate.presets import PRESETS
from lockgate.runs.directory import OBJECTS
from lockgate.runs.legacy import upgraded

DEFAULT = "short"
"""The preset of a file that names none, and of the command."""


def read_file(path: Path) -> dict[str, Any]:
    """The values of an experiment's YAML file, with its ``preset``; the ``config.yaml`` of a run is one too."""
    values = read_yaml(path)
    if values.get(OBJECTS):
        given = ", ".join(f"{key} ({name})" for key, name in values[OBJECTS].items())
        raise ConfigError(
            [f"{path} is of a run that was given objects in Python: {given}. Pass such to lockgate.run, not the file."]
        )
    if "recipe" in values:  # its name in 0.1
        values["preset"] = values.pop("recipe")
    return {"preset": DEFAULT, **upgraded(values)}


def over_preset(values: Mapping[str, Any], task: TaskSize | None = None, chosen: bool = True) -> dict[str, Any]:
    """All values of an experiment: those given, over the ones of their ``preset``, or else over the defaults.

    ``task`` is the size of a task where the data are given rather than named. Without ``chosen``, what `lockgate
    select` chose is left out of the preset.
    """
    given = dict(values)
    preset, base = given.pop("preset", None), Experiment()
    method, dataset = (str(given.get(key, getattr(base, key))) for key in ("method", "dataset"))
    if preset is not None and dataset in DATASETS:  # else its name is a problem to be listed with the others
        base = PRESETS[str(preset)](method, dataset, given, task, chosen)
    made = merge(base.to_dict(), given)
    epochs, asked = given.get("epochs"), given.get("options")
    named = dict(leaves(asked)) if isinstance(asked, Mapping) else {}
    if not chosen or preset is None or not isinstance(epochs, int) or "gan.iterations" in named:
        return made
    return scaled(made, epochs / base.epochs)


def scaled(values: Mapping[str, Any], share: float) -> dict[str, Any]:
    """``values`` with whatever else a task trains, which is a GAN, shortened as its epochs are: to ``share`` of them.

    Whoever asks for one epoch does not want to wait for a thousand iterations beside it. More epochs change nothing.
    """
    gan = (values.get("options") or {}).get("gan")
    if not isinstance(gan, Mapping) or not isinstance(gan.get("iterations"), int) or not 0 < share < 1:
        return dict(values)
    return merge(values, {"options": {"gan": {"iterations": max(1, round(gan["iterations"] * share))}}})
