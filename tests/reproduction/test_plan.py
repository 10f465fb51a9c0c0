"""Runs are known by what they compute."""

from __future__ import annotations

import dataclasses
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import tiny

from lockgate.app.experiment_file import over_preset
from lockgate.cli.main import main
from lockgate.config import Experiment, RuntimeConfig, leaves, merge
from lockgate.errors import LockgateError
from lockgate.methods import METHODS
from lockgate.presets import short
from lockgate.reproduction import TABLES
from lockgate.reproduction.estimate import estimate
from lockgate.reproduction.paper_table import PaperTable
from lockgate.reproduction.plan import Job, chosen, command, computed_in, folder_name, held, jobs, key, taken
from lockgate.reproduction.reproduce import Plan, log_missing
from lockgate.runs.build import experiment_from
from lockgate.runs.directory import RunFolder


def test_a_run_that_two_lines_need_is_made_once(paper_table: PaperTable, tmp_path: Path) -> None:
    wanted = jobs(paper_table.lines("short"), "short", 2, tmp_path)
    assert len(wanted) == 2 * (1 + 2)  # full replay is the same run for either C
    assert len({job.folder for job in wanted}) == len(wanted)


def test_where_and_how_fast_it_runs_does_not_make_another_run() -> None:
    one = tiny.experiment("ccgn")
    assert key(one) == key(dataclasses.replace(one, runtime=RuntimeConfig(threads=7), data_dir="/elsewhere"))
    assert key(one) != key(dataclasses.replace(one, epochs=one.epochs + 1))
    assert key(one) != key(dataclasses.replace(one, seed=5))
    assert key(one) != key(dataclasses.replace(one, runtime=RuntimeConfig(precision="bf16-mixed")))
    assert folder_name(one).removesuffix("seed0") == folder_name(dataclasses.replace(one, seed=5)).removesuffix("seed5")


def test_a_run_is_found_whatever_its_folder_is_called(paper_table: PaperTable, tmp_path: Path) -> None:
    line = paper_table.lines("short")[-1]
    RunFolder(tmp_path / "made by hand").create(line.experiment, "by hand")
    (tmp_path / "of another version").mkdir()
    (tmp_path / "of another version" / "config.yaml").write_text("method: ccgn\noptions: {no_more: 1}\n")
    assert held(tmp_path) == {key(line.experiment): tmp_path / "made by hand"}
    assert jobs([line], "short", 1, tmp_path)[0].folder == tmp_path / "made by hand"


def _finish(folder: Path, experiment: Experiment) -> Path:
    RunFolder(folder).create(experiment, "by hand")
    (folder / "summary.json").write_text(_summary(experiment))
    return folder


def _summary(experiment: Experiment, **changes: Any) -> str:
    """As much of a summary as planning looks at."""
    return json.dumps({"method_version": METHODS[experiment.method].version_of(experiment.options), **changes})


def test_a_finished_run_of_any_precision_counts_the_full_one_first(paper_table: PaperTable, tmp_path: Path) -> None:
    line = paper_table.lines("short")[-1]
    (new,) = jobs([line], "short", 1, tmp_path, precision="bf16-mixed")
    assert new.experiment == computed_in(line.experiment, "bf16-mixed")
    assert "--runtime.precision" in command(new.experiment, "short")

    half = _finish(tmp_path / "half", new.experiment)
    assert [job.folder for job in jobs([line], "short", 1, tmp_path)] == [half]
    whole = _finish(tmp_path / "whole", line.experiment)
    assert [job.folder for job in jobs([line], "short", 1, tmp_path)] == [whole]
    in_half = dataclasses.replace(line, experiment=new.experiment)
    assert taken(held(tmp_path), in_half, seed=0) == half


def test_of_two_runs_alike_the_first_that_is_finished_counts(paper_table: PaperTable, tmp_path: Path) -> None:
    experiment = paper_table.lines("short")[-1].experiment
    places = (tmp_path / "root", tmp_path / "results")
    RunFolder(tmp_path / "root" / "run").create(experiment, "by hand")
    assert held(*places) == {key(experiment): tmp_path / "root" / "run"}
    _finish(tmp_path / "results" / "run", experiment)
    assert held(*places) == {key(experiment): tmp_path / "results" / "run"}
    (tmp_path / "root" / "run" / "summary.json").write_text(_summary(experiment))
    assert held(*places) == {key(experiment): tmp_path / "root" / "run"}


@pytest.mark.parametrize("changes", [{"method_version": 1}, {"method_version": None}, {"note": "Transcribed"}])
def test_what_older_code_learnt_or_somebody_copied_is_not_taken(
    paper_table: PaperTable, tmp_path: Path, changes: dict[str, Any]
) -> None:
    line = paper_table.lines("short")[-1]
    assert METHODS[line.experiment.method].version > 1
    old = _finish(tmp_path / "old", line.experiment)
    (old / "summary.json").write_text(_summary(line.experiment, **changes))
    assert held(tmp_path) == {}
    assert held(tmp_path, older=True) == {key(line.experiment): old}
    assert taken(held(tmp_path), line, seed=0) is None
    (job,) = jobs([line], "short", 1, tmp_path)
    assert job.folder != old
    said: list[str] = []
    table = dataclasses.replace(paper_table, lines=lambda _: [line])
    assert log_missing(Plan((table,), "short", 1, tmp_path), 1, said.append) == [job]
    assert said[1] == "1 result of these is of older code: run again"
    (old / "summary.json").unlink()  # it is being resumed: by the code that is here
    assert held(tmp_path) == {key(line.experiment): old}
    assert held(tmp_path, older=True) == {}


def test_a_line_that_starts_from_another_preset_is_run_by_it(paper_table: PaperTable, tmp_path: Path) -> None:
    line = dataclasses.replace(paper_table.lines("short")[-1], preset="printed")
    assert [job.schedule for job in jobs([line], "short", 1, tmp_path)] == ["printed"]


def test_nothing_is_run_where_results_are_kept(paper_table: PaperTable, tmp_path: Path) -> None:
    line = paper_table.lines("short")[-1]
    root, results = tmp_path / "root", tmp_path / "results"
    RunFolder(results / "half kept").create(line.experiment, "by hand")
    assert held(root, results) == {}
    (job,) = jobs([line], "short", 1, root, results)
    assert job.folder.parent == root

    _finish(results / "kept", line.experiment)
    costs = dataclasses.replace(line, measure="macs")  # nobody measured them, and the model is gone
    (job,) = jobs([costs], "short", 1, root, results)
    assert job.folder.parent == root
    (results / "kept" / "macs.json").write_text("{}")
    assert [job.folder for job in jobs([costs], "short", 1, root, results)] == [results / "kept"]


def test_longer_work_is_said_to_take_longer(tmp_path: Path) -> None:
    def about(method: str, **changes: Any) -> float:
        return estimate([Job(dataclasses.replace(short(method, "mnist"), **changes), tmp_path, "short")])

    assert about("finetune", epochs=20) == pytest.approx(2 * about("finetune", epochs=10))
    assert about("full-replay") > about("finetune")
    larger = merge(short("ccgn-generative", "mnist").options, {"gan": {"batch_size": 64}})
    assert about("ccgn-generative", options=larger) > about("ccgn-generative")
    # A default that nobody wrote down counts like one that somebody did.
    assert about("ccgn-generative") > about("ccgn-generative", options={"gan": {"iterations": 100}}) > about("ccgn")


def test_an_unknown_row_is_answered_with_the_known_ones(paper_table: PaperTable) -> None:
    ((_, lines),) = chosen([paper_table], "short", ("ours",))
    assert {line.row for line in lines} == {"ours"}
    with pytest.raises(
        LockgateError, match=r"nothing called 'HAT'; there are C = 10, C = 20, Full replay, ours, synthetic"
    ):
        chosen([paper_table], "short", ("ours", "HAT"))


def test_names_of_one_kind_add_and_names_of_two_kinds_narrow(paper_table: PaperTable) -> None:
    def lines(*only: str) -> list[tuple[str, str]]:
        ((_, found),) = chosen([paper_table], "short", only)
        return [(line.row, line.columns[0]) for line in found]

    assert lines("ours", "C = 20") == [("ours", "C = 20")]
    assert lines("C = 20", "synthetic") == [("Full replay", "C = 20"), ("ours", "C = 20")]
    assert len(lines("ours", "Full replay")) == len(lines()) == 4


def test_of_many_tables_only_those_that_have_it_are_asked_for_a_row() -> None:
    every = [TABLES[name] for name in TABLES]
    by_name = {paper_table.name: lines for paper_table, lines in chosen(every, "short", ("svhn",))}
    assert by_name["gates"] == []
    assert {line.group for line in by_name["task-incremental"]} == {"svhn"}


@pytest.mark.parametrize("schedule", ["short", "paper"])
@pytest.mark.parametrize("name", list(TABLES))
def test_every_line_of_every_table_is_a_command_that_gives_its_experiment_back(name, schedule, capsys) -> None:
    lines = TABLES[name].lines(schedule)
    assert lines
    for line in lines:
        experiment = dataclasses.replace(line.experiment, seed=3)
        assert main([*command(experiment, line.preset or schedule), "--print_config"]) == 0
        assert key(experiment_from(yaml.safe_load(capsys.readouterr().out))) == key(experiment)
        assert len(line.columns) == len(line.paper)


GIVEN: list[dict[str, Any]] = [
    {"backbone": "resnet18"},
    {"backbone": "mlp", "model": {"width": 7}},
    {"optim": {"batch_size": 256}},
    {"optim": {"batch_size": 64}, "epochs": 8},  # the recipe's own
    {"tasks": 2, "scenario": {"per_class": 300, "held_out": 0.3, "kind": "rotated"}},
    {"tasks": 2, "scenario": {"per_class": 300}, "optim": {"batch_size": 8}},
    {"tasks": 1, "epochs": 8, "data_dir": "12: 3"},
    {"dataset": "cifar10", "backbone": "simple_cnn", "model": {"width": 16}, "augment": {"random_flip": True}},
    {"augment": {"random_translate": 0, "images": "rehearsed"}, "options": {"sparsity_warmup": 2, "grow": 0.3}},
    {"options": {"prune": 0.0}, "scenario": {"class_order": 1993}, "runtime": {"loggers": ["tensorboard"]}},
]
SYNTHETIC = {"dataset": "synthetic", "data": {"synthetic_classes": 4, "synthetic_per_class": 2000}, "tasks": 2}


@pytest.mark.parametrize(
    ("schedule", "given"),
    [*product(("short", "printed"), GIVEN), ("short", SYNTHETIC)],  # the paper has no synthetic data
)
def test_a_command_gives_back_whatever_experiment_it_was_made_from(
    schedule: Any, given: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a preset makes of some flags: the ones printed, parsed anew, make the same of them."""
    values = {"preset": "short", "method": "ccgn-episodic", "dataset": "mnist", **given}
    experiment = experiment_from(over_preset(values))
    words = command(experiment, schedule)
    assert main([*words, "--print_config"]) == 0
    assert experiment_from(yaml.safe_load(capsys.readouterr().out)) == experiment
    if schedule == "short":
        asked = {name for name, _ in leaves(values)}
        assert {word[2:] for word in words if word.startswith("--")} <= asked, "no flag that the recipe makes needless"
