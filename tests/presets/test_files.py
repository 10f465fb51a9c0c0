"""The files of the presets say what an experiment gets: read here by a loop of their own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

import lockgate.presets
from lockgate.backbones import BACKBONES
from lockgate.config import Experiment
from lockgate.data import DATASETS
from lockgate.methods import METHODS
from lockgate.presets import PRESETS, recipe, short
from lockgate.settings import leaves

FITTED = (
    "backbone",
    "epochs",
    "optim.batch_size",
    *(f"augment.random_{how}" for how in ("translate", "affine", "flip")),
)
"""What a recipe fits to the data: tests/presets/test_recipe.py."""
EVERY = sorted(Path(lockgate.presets.__file__).parent.glob("*/*.yaml"))
FILES = [file for file in EVERY if file.parent.name != "spaces"]  # of which tests/reproduction/test_select.py knows


def test_every_preset_has_files_of_networks_or_data_sets_that_there_are():
    assert {file.parent.name for file in FILES} == set(PRESETS)
    for file in FILES:
        assert file.stem in ({*BACKBONES, "default"} if file.parent.name == "short" else set(DATASETS)), file


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_every_number_of_a_file_reaches_the_experiment_and_a_methods_own_come_first(file):
    groups = yaml.safe_load(file.read_text())
    rules = {"schedule", "augment"} if file.parent.name == "short" else set()
    named = [name for group in groups.keys() - rules - {"all"} for name in group.split(", ")]
    assert set(named) <= set(METHODS), "a group that no method has would never be read"
    defaults = dict(leaves(Experiment().to_dict()))
    for method in METHODS:
        dataset = "mnist" if rules else file.stem
        made = dict(leaves(PRESETS[file.parent.name](method, dataset, {"backbone": file.stem}, chosen=False).to_dict()))
        wanted = dict(leaves(groups["all"]))
        for group, settings in groups.items():
            if method in group.split(", "):
                wanted |= dict(leaves(settings))
        for name, value in wanted.items():
            found = made[name]
            assert found == (tuple(value) if isinstance(found, tuple) else type(found)(value)), (method, name)
        untouched = defaults.keys() - wanted.keys() - {"method", "dataset", "options", *(FITTED if rules else ())}
        assert {name: made[name] for name in untouched} == {name: defaults[name] for name in untouched}
        assert (made["method"], made["dataset"]) == (method, dataset)


def test_a_network_without_a_file_takes_the_default():
    theirs, default = (short("ccgn", "mnist", {"backbone": name}) for name in ("somebody.elses:Net", "default"))
    assert dataclasses.replace(theirs, backbone="default") == default
    assert recipe.recipe_file("../paper/mnist") == recipe.recipe_file("default"), "a name is no path"
