"""What is kept in results/ was written by runs of the present code: nothing older, nothing copied by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockgate.methods import METHODS
from lockgate.reproduction.plan import current
from lockgate.runs.build import experiment_from
from lockgate.runs.directory import read_experiment

RESULTS = Path(__file__).parents[2] / "results"
KEPT = sorted(path.parent for path in RESULTS.glob("*/summary.json"))


@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: folder.name)
def test_a_kept_result_is_of_the_present_version_of_its_method(folder: Path) -> None:
    experiment = read_experiment(folder / "config.yaml")
    summary = json.loads((folder / "summary.json").read_text())
    assert "note" not in summary, f"{folder.name} is a copy, not a run: remove it"
    now = METHODS[experiment.method].version_of(experiment.options)
    assert current(folder, experiment), (
        f"{folder.name} was made by version {summary.get('method_version')} of {experiment.method}, which is at {now}: "
        "remove it, and run it again with `lockgate reproduce TABLE --results results`"
    )


def test_a_kept_result_is_whole() -> None:
    """Whatever stands here is a run with a summary, so that no older one hides behind a missing file."""
    folders = [path for path in RESULTS.iterdir() if path.is_dir() and path.name != "select"]
    assert sorted(folders) == KEPT
    assert all((folder / "config.yaml").is_file() for folder in KEPT)


@pytest.mark.parametrize(
    ("summary", "is_current"),
    [
        ({"method_version": METHODS["ccgn"].version}, True),
        ({"method_version": 1}, False),
        ({}, False),
        ({"method_version": METHODS["ccgn"].version, "note": "x"}, False),
    ],
)
def test_older_results_and_copies_are_found_out(tmp_path: Path, summary: dict[str, object], is_current: bool) -> None:
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    assert current(tmp_path, experiment_from({"method": "ccgn", "options": {"budget": 0.8}})) is is_current


def test_a_result_that_a_change_does_not_concern_stays(tmp_path: Path) -> None:
    """Of ccgn, what has changed since `without_budget` concerns experiments with a budget alone."""
    ccgn = METHODS["ccgn"]
    (tmp_path / "summary.json").write_text(json.dumps({"method_version": ccgn.without_budget}))
    assert ccgn.without_budget < ccgn.version
    for budget, is_current in ((0.0, True), (0.8, False)):
        experiment = experiment_from({"method": "ccgn", "options": {"budget": budget}})
        assert current(tmp_path, experiment) is is_current
