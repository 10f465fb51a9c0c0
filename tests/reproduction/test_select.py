"""Settings are chosen on held-out images: real but tiny runs."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from lockgate.app.experiment_file import over_preset
from lockgate.cli.main import main
from lockgate.config import nested
from lockgate.errors import ConfigError, LockgateError
from lockgate.evaluation.accuracy import accuracy
from lockgate.methods import METHODS
from lockgate.presets import recipe, short
from lockgate.reproduction.plan import Job, command
from lockgate.reproduction.runners import local
from lockgate.reproduction.select.choose import best_of
from lockgate.reproduction.select.space import FOLDER, draw, read_space
from lockgate.reproduction.select.trials import Outcome, Selection
from lockgate.runs.build import build_scenario, experiment_from
from lockgate.runs.loading import load
from lockgate.runs.run import run

SMALL = ["--dataset", "synthetic", "--data.synthetic_classes", "4", "--data.synthetic_per_class", "10", "--tasks", "2"]
SMALL += ["--epochs", "1", "--model.width", "4", "--optim.batch_size", "8", "--scenario.held_out", "0.4"]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Runs in this process, which is quicker than a process for each; which folders were asked for."""
    made: list[Path] = []

    def run_jobs(jobs: list[Job], at_once: int, log: Callable[[str], None]) -> list[Job]:
        for job in jobs:
            made.append(job.folder)
            run(job.experiment, job.folder)
        return []

    monkeypatch.setattr(local, "run_jobs", run_jobs)
    return made


def select(out: Path, *words: str, method: str = "finetune", name: str = "") -> dict[str, Any]:
    assert main(["select", method, *SMALL, "--out", str(out), *words]) == 0
    chosen: dict[str, Any] = yaml.safe_load((out / f"{name or method}.yaml").read_text())
    return chosen


def trials(out: Path, method: str = "finetune") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / f"{method}-trials.jsonl").read_text().splitlines()]


def test_the_best_trial_is_chosen_and_everything_is_written(tmp_path: Path, here: list[Path]) -> None:
    chosen = select(tmp_path, "--trials", "3", "--seeds", "2")
    tried = trials(tmp_path)
    assert [one["trial"] for one in tried] == [0, 1, 2]
    assert chosen["score"] == max(one["score"] for one in tried)
    best = tried[chosen["trial"]]
    assert dict(_flat(chosen["settings"])) == best["settings"]
    assert set(best["settings"]) == {"optim.optimiser", "optim.lr", "optim.schedule"}
    assert chosen["score_of_preset"] == tried[0]["score"]
    assert chosen["budget"]["seeds"] == [100, 101]
    assert chosen["goal"] == "class_incremental"
    assert chosen["command"].startswith("lockgate select finetune --dataset synthetic")
    assert {"commit", "space", "run"} <= set(chosen)
    for one in tried:
        assert one["score"] == pytest.approx(sum(one["scores"]["synthetic"].values()) / 2)
        assert list(one["scores"]["synthetic"]) == ["100", "101"]
        assert "task_incremental" in one["others"]


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found = []
    for name, value in values.items():
        found += _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)]
    return found


def test_trial_0_is_the_preset_and_every_run_is_on_a_seed_and_an_order_kept_for_choosing(
    tmp_path: Path, here: list[Path]
) -> None:
    select(tmp_path, "--trials", "2", "--seeds", "2", "--optim.schedule", "constant")
    configs = [yaml.safe_load((folder / "config.yaml").read_text()) for folder in here]
    assert [(c["seed"], c["scenario"]["order_seed"]) for c in configs] == [(100, 100), (101, 101)] * 2
    for config in configs:
        assert config["scenario"]["class_order"] == "random"
        assert config["scenario"]["evaluate"] == "held_out"
        assert config["optim"]["schedule"] == "constant"  # fixed by the flag, though the space would vary it
    preset = short("finetune", "synthetic", chosen=False).optim
    assert (configs[0]["optim"]["lr"], configs[0]["optim"]["optimiser"]) == (preset.lr, preset.optimiser)
    assert configs[2]["optim"]["lr"] == configs[3]["optim"]["lr"] != preset.lr


def test_the_score_is_the_accuracy_of_held_out_images(tmp_path: Path, here: list[Path]) -> None:
    select(tmp_path, "--trials", "1", "--goal", "task", "--keep-models")
    learner, scenario, experiment = load(here[0])
    by_hand = [accuracy(learner, task.test, task.id) for task in scenario.tasks]
    assert trials(tmp_path)[0]["score"] == pytest.approx(sum(by_hand) / 2)
    on_test = dataclasses.replace(experiment, scenario=dataclasses.replace(experiment.scenario, evaluate="test"))
    for mine, other in zip(scenario.tasks, build_scenario(on_test).tasks, strict=True):
        assert mine.train.x.equal(other.train.x)
        held = {image.numpy().tobytes() for image in other.val.x}
        judged, own = ({image.numpy().tobytes() for image in part.x} for part in (mine.test, mine.val))
        assert (judged | own, judged & own) == (held, set()), "held-out images; half for the method, half to judge it"
        assert mine.test.x.tolist() != other.test.x.tolist()


def test_the_same_command_again_runs_nothing_and_more_trials_add_to_those_there_are(
    tmp_path: Path, here: list[Path]
) -> None:
    first = select(tmp_path, "--trials", "2")
    assert len(here) == 2
    before = trials(tmp_path)
    assert select(tmp_path, "--trials", "2")["score"] == first["score"]
    assert len(here) == 2
    here[0].rename(tmp_path / "runs" / "under another name")
    select(tmp_path, "--trials", "3")
    assert len(here) == 3
    assert [one["settings"] for one in trials(tmp_path)[:2]] == [one["settings"] for one in before]


def test_models_are_not_kept_unless_wanted(tmp_path: Path, here: list[Path]) -> None:
    select(tmp_path, "--trials", "1")
    assert not (here[0] / "checkpoints").exists()
    assert (here[0] / "summary.json").is_file()


def test_runs_in_processes_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = select(tmp_path, "--trials", "2", "--jobs", "2", "--optim.batch_size", "16")
    assert chosen["budget"]["failed"] == []
    told = capsys.readouterr().err
    assert "2 trials on 1 seeds of synthetic: 2 runs, 0 finished, 2 to do" in told
    assert "(1 of 2, about 1 min left)" in told
    assert "(2 of 2)" in told


def test_a_failed_trial_is_said_and_not_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_jobs(jobs: list[Job], at_once: int, log: Callable[[str], None]) -> list[Job]:
        run(jobs[1].experiment, jobs[1].folder)
        return [jobs[0]]

    monkeypatch.setattr(local, "run_jobs", run_jobs)
    assert main(["select", "finetune", *SMALL, "--out", str(tmp_path), "--trials", "2"]) == 1
    chosen = yaml.safe_load((tmp_path / "finetune.yaml").read_text())
    assert (chosen["trial"], chosen["budget"]["failed"], chosen["score_of_preset"]) == (1, [0], None)
    assert trials(tmp_path)[0]["scores"] == {"synthetic": {"100": None}}


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_test_files_are_never_opened(tmp_path: Path, here: list[Path], damage: str) -> None:
    """MNIST's files for training alone; in the place of those for testing, nothing or nonsense."""
    data = tmp_path / "data" / "mnist"
    data.mkdir(parents=True)
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(10), 6).astype(np.uint8)
    images = rng.integers(0, 256, (60, 28, 28)).astype(np.uint8)
    for name, array in (("images-idx3", images), ("labels-idx1", labels)):
        sizes = b"".join(int(size).to_bytes(4, "big") for size in array.shape)
        (data / f"train-{name}-ubyte").write_bytes(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes())
        if damage == "corrupt":
            (data / f"t10k-{name}-ubyte").write_bytes(b"nonsense")
    words = ["--dataset", "mnist", "--data-dir", str(data.parent), "--tasks", "5", "--per-class", "5"]
    chosen = select(tmp_path / "out", "--trials", "2", *words)
    assert chosen["budget"]["datasets"] == ["mnist"]
    assert chosen["budget"]["per_class"] == 5
    assert main(["run", "--method", "finetune", *SMALL, *words[:-2], "--out", str(tmp_path / "run")]) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--trials", "0"], "'trials' must be at least 1"),
        (["--seed", "3"], "'--seed' is set by the selection. Use --seeds."),
        (["--scenario.evaluate", "test"], "'--scenario.evaluate' is set by the selection"),
        (["--goal", "domain"], "--scenario.kind permuted"),
        (["--goal", "class", "--method", "ccgn"], "Use METHOD"),
        (["--space", "nowhere.yaml"], "Cannot read nowhere.yaml"),
        (["--datasets", "mnist,svhn"], "'--dataset' and '--datasets' are one setting"),
        (["--name", "../elsewhere"], "'name' must be letters"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    tmp_path: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["select", "finetune", *SMALL, "--out", str(tmp_path), *words]) == 2
    assert told in capsys.readouterr().err


def test_a_method_that_needs_the_task_is_chosen_by_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not METHODS["hat"].class_incremental
    assert main(["select", "hat", *SMALL, "--out", str(tmp_path)]) == 2
    assert "use --goal task" in capsys.readouterr().err


def test_domains_are_chosen_by_the_class_alone(tmp_path: Path, here: list[Path]) -> None:
    chosen = select(tmp_path, "--trials", "1", "--goal", "domain", "--scenario.kind", "rotated")
    assert chosen["goal"] == "domain_incremental"
    summary = json.loads((here[0] / "summary.json").read_text())
    assert chosen["score"] == summary["domain_incremental"]["average"]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_space_with_optimiser_and_rate_whose_trials_can_be_run(method: str, tmp_path: Path) -> None:
    space = read_space(method)
    selection = Selection(method, ("synthetic",), {}, "short", space, 30, 1, "class", tmp_path)
    if method == "dgm":  # trained by the GAN's schedule: nothing is chosen that would have no effect
        assert not {name for name in selection.settings(0) if name.startswith("optim")}
        assert "options.gan.lr" in selection.settings(0)
    else:
        assert {"optim.optimiser", "optim.lr"} <= set(selection.settings(0))
        assert {one["optim.optimiser"] for one in selection.drawn[1:]} == {"sgd", "adamw"}
    assert all(jobs[0].experiment.method == method for jobs in selection.jobs)


def test_every_space_that_is_shipped_belongs_to_a_method() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} <= {"all", *METHODS}


@pytest.mark.parametrize("method", METHODS)
def test_no_space_has_what_makes_methods_comparable(method: str) -> None:
    names = {name for trial in range(50) for name in draw(read_space(method), 0, trial)}
    budget = {f"options.gan.{name}" for name in ("width", "iterations", "critic_steps", "penalty_every", "batch_size")}
    assert not names & {"epochs", "optim.batch_size", "tasks", "options.buffer", "options.grow", *budget}
    assert not [name for name in names if name.startswith(("augment.", "model.", "data.", "scenario."))]


def test_one_choice_for_many_data_sets_is_the_best_on_average(tmp_path: Path, here: list[Path]) -> None:
    words = [word for word in SMALL if word not in ("--dataset", "synthetic")] + ["--scenario.per_class", "10"]
    words += ["--seeds", "2", "--trials", "3", "--out", str(tmp_path), "--datasets", "synthetic,digits"]
    assert main(["select", "finetune", *words]) == 0
    chosen, tried = yaml.safe_load((tmp_path / "finetune.yaml").read_text()), trials(tmp_path)
    datasets = [yaml.safe_load((folder / "config.yaml").read_text())["dataset"] for folder in here]
    assert datasets == ["synthetic", "synthetic", "digits", "digits"] * 3
    by_hand = [[sum(one["scores"][name].values()) / 2 for name in ("synthetic", "digits")] for one in tried]
    assert chosen["score"] == pytest.approx(max(sum(two) / 2 for two in by_hand))
    assert [*chosen["scores"].values()] == pytest.approx(by_hand[chosen["trial"]])
    assert list(chosen["scores"]) == list(chosen["run"]) == chosen["budget"]["datasets"] == ["synthetic", "digits"]
    assert [*chosen["scores_of_preset"].values()] == pytest.approx(by_hand[0])


def test_data_sets_that_have_different_networks_have_no_common_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["select", "finetune", "--datasets", "mnist,cifar10", "--out", str(tmp_path)]
    assert main(words) == 2
    assert "mnist (simple_cnn), cifar10 (resnet18); use --backbone" in capsys.readouterr().err
    assert main([*words[:3], "mnist,mnist", *words[4:]]) == 2
    assert "each data set once" in capsys.readouterr().err


def test_the_printed_method_can_be_varied_too(tmp_path: Path, here: list[Path]) -> None:
    (tmp_path / "space.yaml").write_text("optim.lr: {low: 0.01, high: 0.2, log: true}")
    words = ["--dataset", "digits", "--tasks", "5", "--scenario.per_class", "6", "--schedule", "printed"]
    chosen = select(tmp_path, *words, "--space", str(tmp_path / "space.yaml"), "--trials", "2")
    assert chosen["preset"] == "printed"
    configs = [yaml.safe_load((folder / "config.yaml").read_text()) for folder in here]
    assert [c["optim"]["optimiser"] for c in configs] == ["sgd", "sgd"]
    assert configs[0]["optim"]["lr"] == 0.01


def test_variants_of_a_method_have_files_of_their_own(tmp_path: Path, here: list[Path]) -> None:
    common = ["--trials", "1", "--options.buffer", "8"]
    one = select(
        tmp_path, *common, "--options.selection", "random", "--name", "icarl-rand", method="icarl", name="icarl-rand"
    )
    two = select(tmp_path, *common, method="icarl")
    assert {path.name for path in tmp_path.glob("icarl*")} == {
        *("icarl-rand.yaml", "icarl-rand-trials.jsonl", "icarl.yaml", "icarl-trials.jsonl")
    }
    assert (one["method"], one["fixed"]) == ("icarl", {"options": {"selection": "random"}}), "the buffer is in no space"
    assert two["fixed"] == {}


def test_what_was_chosen_is_the_preset_when_its_file_is_put_there(
    tmp_path: Path, here: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    presets = tmp_path / "presets"
    shutil.copytree(recipe.FOLDER, presets, ignore=shutil.ignore_patterns("chosen"))
    monkeypatch.setattr(recipe, "FOLDER", presets)
    before = short("icarl", "synthetic")
    words = ["--trials", "3", "--options.buffer", "8"]
    rand = ["--options.selection", "random", "--name", "icarl-rand", "--search-seed", "1"]
    folder = presets / "chosen" / "simple_cnn"
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {}
    for name, more in (("icarl", []), ("icarl-rand", rand)):
        chosen[name] = select(tmp_path / "out", *words, *more, method="icarl", name=name)
        shutil.copy(tmp_path / "out" / f"{name}.yaml", folder)

    for dataset in ("synthetic", "mnist", "somebody.elses:birds"):
        made = dict(_flat(short("icarl", dataset).to_dict()))
        assert {name: made[name] for name, _ in _flat(chosen["icarl"]["settings"])} == dict(
            _flat(chosen["icarl"]["settings"])
        )
    asked = dict(_flat(short("icarl", "mnist", {"options": {"selection": "random"}}).to_dict()))
    wanted = dict(_flat(chosen["icarl-rand"]["settings"]))
    assert {name: asked[name] for name in wanted} == wanted
    assert short("icarl", "synthetic", chosen=False) == before, "a selection begins without the last one's choice"
    assert short("icarl", "cifar10") == short("icarl", "cifar10", chosen=False), "another network"
    assert short("er", "mnist") == short("er", "mnist", chosen=False), "another method"

    assert main(["list", "presets"]) == 0
    assert "icarl-rand on simple_cnn: the best of 3 trials (synthetic 0." in capsys.readouterr().out
    runs = len(here)
    assert select(tmp_path / "out", *words, method="icarl")["score"] == chosen["icarl"]["score"]
    assert len(here) == runs, "trials are what they were before, so nothing is run"
    for options in ({}, {"selection": "random"}, {"selection": "herding"}):
        for used in (True, False):
            given = {"preset": "short", "method": "icarl", "dataset": "synthetic", "options": options}
            experiment = experiment_from(over_preset(given, chosen=used))
            capsys.readouterr()
            assert main([*command(experiment, "short"), "--print_config"]) == 0
            assert experiment_from(yaml.safe_load(capsys.readouterr().out)) == experiment


@pytest.mark.parametrize("file", sorted((recipe.FOLDER / "chosen").glob("*/*.yaml")), ids=lambda file: file.stem)
def test_every_choice_that_is_shipped_is_of_its_network_and_of_the_preset(file: Path) -> None:
    content = yaml.safe_load(file.read_text())
    assert (content["preset"], content["budget"]["backbone"]) == ("short", file.parent.name)
    assert content["score"] >= content["score_of_preset"]
    asked = {"options": content["fixed"].get("options", {}), "backbone": file.parent.name}
    made = dict(_flat(short(content["method"], "mnist", asked).to_dict()))
    assert {name: made[name] for name, _ in _flat(content["settings"])} == dict(_flat(content["settings"]))
    assert file.stem == content["method"] or content["fixed"].get("options"), "a variant is known by what it fixed"


def test_draws_keep_to_the_space() -> None:
    space = {
        "a": [1, 2],
        "b": {"low": 1e-3, "high": 1.0, "log": True},
        "c.d": {"low": 2, "high": 4},
        "e": [{"f": "x", "g": {"low": 0.0, "high": 1.0}}, {"f": "y"}],
        "h": [[1, 2], [3]],
    }
    drawn = [draw(space, 0, trial) for trial in range(300)]
    assert {one["a"] for one in drawn} == {1, 2}
    assert all(1e-3 <= one["b"] <= 1 for one in drawn)
    assert 60 < sum(one["b"] < 0.01 for one in drawn) < 140, "a third of the draws lies in each factor of ten"
    assert sorted({one["c.d"] for one in drawn}) == [2, 3, 4]
    assert {tuple(one["h"]) for one in drawn} == {(1, 2), (3,)}
    assert all(("e.g" in one) == (one["e.f"] == "x") for one in drawn)
    assert nested({"c.d": 1, "c.e": 2, "f": 3}) == {"c": {"d": 1, "e": 2}, "f": 3}


def test_a_trial_is_the_same_whatever_else_is_drawn() -> None:
    space = {"a": {"low": 0.0, "high": 1.0}, "b": [1, 2, 3]}
    assert draw(space, 0, 7)["a"] == draw({"a": space["a"]}, 0, 7)["a"]
    assert draw(space, 0, 7) != draw(space, 1, 7)


@pytest.mark.parametrize(
    "text",
    [
        "a: {low: 3, high: 1}",
        "a: {low: 0, high: 1, log: true}",
        "a: {low: 1}",
        "a: {low: 1, high: 2, step: 3}",
        "a: []",
        "a: [{b: {low: x, high: 2}}]",
        "a: {low: 0.0, high: .inf}",
    ],
)
def test_a_bad_space_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "space.yaml").write_text(text)
    with pytest.raises(ConfigError, match="'a"):
        read_space("finetune", tmp_path / "space.yaml")


def test_a_setting_that_is_none_is_refused_with_its_trial(tmp_path: Path) -> None:
    selection = Selection("finetune", ("synthetic",), {}, "short", {"optim.rate": [1]}, 2, 1, "class", tmp_path)
    with pytest.raises(ConfigError, match=r"Unknown key 'optim\.rate'.*trial 1"):
        _ = selection.jobs


def test_the_first_of_equal_trials_is_the_best_and_without_any_there_is_none() -> None:
    def one(trial: int, *scores: float | None) -> Outcome:
        return Outcome(trial, {}, {"data": dict(enumerate(scores))}, {}, 0.0, ())

    assert best_of([one(0, 0.5, 0.7), one(1, 0.7, 0.5), one(2, 0.9, None)]).trial == 0
    assert best_of([one(0, None), one(1, 0.1)]).trial == 1
    with pytest.raises(LockgateError, match="No trial"):
        best_of([one(0, None)])
