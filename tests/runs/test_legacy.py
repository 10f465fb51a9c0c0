"""Configurations of 0.1 are read in today's words."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lockgate.config import Experiment
from lockgate.runs.directory import read_experiment
from lockgate.runs.legacy import upgraded


@pytest.mark.parametrize(("switch", "loggers"), [(True, ("tensorboard",)), (False, ())])
def test_the_switch_for_tensorboard_is_a_logger(tmp_path: Path, switch: bool, loggers: tuple[str, ...]) -> None:
    values = Experiment().to_dict()
    del values["runtime"]["loggers"]
    values["runtime"]["tensorboard"] = switch
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    assert read_experiment(tmp_path / "config.yaml").runtime.loggers == loggers


def test_what_is_of_today_stays_and_a_mistake_is_left_to_who_says_it() -> None:
    values = Experiment().to_dict()
    assert upgraded(values) == values
    wrong = {"optim": 3, "options": None, "runtime": []}
    assert upgraded(wrong) == wrong
