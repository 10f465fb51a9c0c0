"""Rows of a table: ours as printed differs from its preset by length alone; all others have equal means."""

from __future__ import annotations

import dataclasses
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from lockgate.config import Experiment, leaves
from lockgate.presets import printed, recipe
from lockgate.reproduction import TABLES
from lockgate.reproduction.paper_table import Line, Schedule
from lockgate.reproduction.rows import BUDGET, LOCKGATE, printed_row
from lockgate.reproduction.tables_and_figures import episodic
from lockgate.reproduction.tables_and_figures.digits import DIGITS
from lockgate.reproduction.tables_and_figures.fashion import FASHION
from lockgate.runs.build import validated

SCHEDULES: tuple[Schedule, ...] = ("short", "paper")
BEYOND = ("digits", "fashion")
OTHER_LENGTH = {"epochs", "optim.milestones", *(f"options.gan.{name}" for name in BUDGET)}


def differences(a: Experiment, b: Experiment) -> set[str]:
    one, other = (dict(leaves(validated(experiment).to_dict())) for experiment in (a, b))
    return {name for name in one | other if one.get(name) != other.get(name)}


def means(experiment: Experiment) -> dict[str, Any]:
    """What makes a comparison fair, of an experiment with all its defaults."""
    whole = validated(experiment)
    return {
        "backbone": whole.backbone,
        "model": whole.model,
        "epochs": whole.epochs,
        "batch": whole.optim.batch_size,
        "augmentation": dataclasses.replace(whole.augment, images="all"),
        "images": whole.scenario,
        "growth": whole.options.get("grow", 0.0),
    }


def by_group(name: str, schedule: Schedule) -> dict[str, list[Line]]:
    groups: dict[str, list[Line]] = defaultdict(list)
    for line in TABLES[name].lines(schedule):
        groups[line.group].append(line)
    return groups


def compared(lines: list[Line]) -> list[list[Line]]:
    """Rows that are compared with one another: Table 3 has both settings in one group."""
    halves = [[line for line in lines if line.row.endswith("no task given") is without] for without in (False, True)]
    return [half for half in halves if half]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", list(TABLES))
def test_all_rows_of_a_group_but_the_printed_one_have_equal_means(name: str, schedule: Schedule) -> None:
    for group, every in by_group(name, schedule).items():
        for lines in compared(every):
            fair = [line.experiment for line in lines if line.preset != "printed"]
            for experiment in fair:
                assert means(experiment) == means(fair[0]), f"{group}: {experiment.method} against {fair[0].method}"
                assert means(experiment)["growth"] == 0
            options = [validated(line.experiment).options for line in lines]
            gans = {tuple(some["gan"][key] for key in BUDGET) for some in options if "gan" in some}
            assert len(gans) <= 1, group


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", list(TABLES))
def test_as_printed_differs_from_its_preset_by_length_and_buffer_alone(name: str, schedule: Schedule) -> None:
    lines = [line for line in TABLES[name].lines(schedule) if line.preset == "printed"]
    assert lines, "every table shows ours as printed"
    for line in lines:
        experiment = line.experiment
        allowed = (OTHER_LENGTH if schedule == "short" else set()) | {"options.buffer"}
        allowed |= {"scenario.per_class"} if name == "fashion" else set()  # a share of the images, in all its rows
        assert differences(experiment, printed(experiment.method, experiment.dataset)) <= allowed, line.row
        assert not experiment.options["seal"]


@pytest.mark.parametrize(
    ("dataset", "epochs", "warmup", "milestones"),
    [("mnist", 40, 20, ()), ("svhn", 80, 20, (40, 60)), ("cifar10", 20, 10, (10, 15)), ("digits", 100, 20, ())],
)
def test_a_tenth_of_the_papers_epochs_with_its_patience(
    dataset: str, epochs: int, warmup: int, milestones: tuple[int, ...]
) -> None:
    made = printed_row("short", "ccgn", dataset)
    assert (made.epochs, made.options["sparsity_warmup"], made.optim.milestones) == (epochs, warmup, milestones)
    assert printed_row("paper", "ccgn", dataset) == printed("ccgn", dataset)


@pytest.mark.parametrize("name", list(TABLES))
def test_lockgates_row_stands_beside_the_printed_one_and_has_no_verdict(name: str) -> None:
    for group, lines in by_group(name, "short").items():
        own = [line for line in lines if line.row.startswith(LOCKGATE)]
        assert own, group
        assert any(line.preset == "printed" for line in lines), group
        for line in own:
            assert not line.judged
            assert set(line.paper) == {None}


@pytest.mark.parametrize("name", [name for name in TABLES if TABLES[name].unit == "accuracy" and name not in BEYOND])
def test_what_guessing_comes_to_is_known_of_every_baseline(name: str) -> None:
    for line in TABLES[name].lines("short"):
        assert not line.judged or line.preset == "printed" or line.chance is not None, line.row


def test_no_class_incremental_number_stands_alone() -> None:
    for name, group in (
        ("episodic", "mnist"),
        ("episodic", "svhn"),
        (DIGITS.dataset, DIGITS.not_given),
        ("fashion", FASHION.not_given),
    ):
        rows = {line.row for line in by_group(name, "short")[group]}
        assert {"ER", "DER++", "ER-ACE", "GDumb", "SVM on the stored images"} <= rows


def test_a_variant_has_the_settings_that_were_chosen_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(recipe.FOLDER, tmp_path / "presets")
    monkeypatch.setattr(recipe, "FOLDER", tmp_path / "presets")
    chosen = "method: icarl\nfixed: {options: {selection: random}}\nsettings: {optim: {lr: 0.0123}}\n"
    (tmp_path / "presets" / "chosen" / "simple_cnn" / "icarl-rand.yaml").write_text(chosen)
    rates = {row: episodic.rival("short", row, "mnist", 500).optim.lr for row in ("iCaRL-rand", "iCaRL-mean")}
    assert rates["iCaRL-rand"] == 0.0123 != rates["iCaRL-mean"]
