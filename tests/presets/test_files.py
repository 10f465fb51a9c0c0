"""The files of the presets say what an experiment gets: read here by a loop of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import lockgate.presets
from lockgate.config import Experiment
from lockgate.data import DATASETS
from lockgate.methods import METHODS
from lockgate.presets import PRESETS, from_files
from lockgate.settings import leaves

EVERY = sorted(Path(lockgate.presets.__file__).parent.glob("*/*.yaml"))
FILES = [file for file in EVERY if file.parent.name != "spaces"]  # of which tests/reproduction/test_select.py knows


def test_every_preset_has_files_of_data_sets_that_there_are():
    assert {file.parent.name for file in FILES} == set(PRESETS)
    assert {file.stem for file in FILES} <= {*DATASETS, "default"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_every_number_of_a_file_reaches_the_experiment_and_a_methods_own_come_first(file):
    groups = yaml.safe_load(file.read_text())
    assert groups.keys() - {"all", "source"} <= set(METHODS), "a group that no method has would never be read"
    defaults = dict(leaves(Experiment().to_dict()))
    for method in METHODS:
        made = dict(leaves(from_files(file.parent.name, method, file.stem).to_dict()))
        own, shared = (dict(leaves(groups.get(name) or {})) for name in (method, "all"))
        for name, value in {**shared, **own}.items():
            found = made[name]
            assert found == (tuple(value) if isinstance(found, tuple) else type(found)(value)), (method, name)
        untouched = defaults.keys() - own.keys() - shared.keys() - {"method", "dataset", "options"}
        assert {name: made[name] for name in untouched} == {name: defaults[name] for name in untouched}
        assert (made["method"], made["dataset"]) == (method, file.stem)


def test_a_data_set_without_a_file_takes_the_presets_default():
    ours = dict(leaves(from_files("short", "ccgn", "somebody.elses:birds").to_dict()))
    default = dict(leaves(from_files("short", "ccgn", "default").to_dict()))
    assert {name for name in ours if ours[name] != default[name]} == {"dataset"}
