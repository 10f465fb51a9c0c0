"""Experiments from Python: names or objects, the same bits; what was given as an object is asked for again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tests.support import tiny
from torch import nn

import lockgate
from lockgate.backbones.mlp import MLP
from lockgate.cli.main import main
from lockgate.errors import CheckpointError, ConfigError, RunFolderError
from lockgate.layers.plain import LayerFactory
from lockgate.methods import METHODS
from lockgate.methods.ccgn.method import CCGN
from lockgate.methods.finetune import Finetune
from lockgate.runs.build import build_scenario
from lockgate.runs.run import run as run_by_name
from lockgate.scenario import Scenario

Bits = Callable[[Path], bytes]


class Mine(Finetune):
    """A method of one's own."""


def network(image_shape: tuple[int, int, int], layer_factory: LayerFactory, config: Any) -> MLP:
    return MLP(image_shape, layer_factory, config)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return build_scenario(tiny.experiment())


@pytest.fixture(scope="module")
def whole_own(tmp_path_factory: pytest.TempPathFactory, scenario: Scenario) -> Path:
    out = tmp_path_factory.mktemp("own") / "run"
    torch.set_num_threads(1)
    lockgate.run(tiny.experiment(), out, scenario=scenario, method=Mine, network=network, quiet=True)
    return out


@pytest.fixture
def own(whole_own: Path, tmp_path: Path) -> Path:
    """A run with three objects, stopped before the end of its last task."""
    out = Path(shutil.copytree(whole_own, tmp_path / "own"))
    shutil.rmtree(max(out.glob("checkpoints/*-task")))
    (out / "summary.json").unlink()
    lines = (out / "records.jsonl").read_text().splitlines(keepends=True)
    (out / "records.jsonl").write_text("".join(lines[:-1]))
    return out


def test_an_experiment_its_keywords_and_its_file_are_one_run(tmp_path: Path, last_bits: Bits) -> None:
    experiment = tiny.experiment("ccgn")
    run_by_name(experiment, tmp_path / "command")
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(experiment.to_dict()))
    for name, given in (("object", experiment), ("keywords", experiment.to_dict()), ("file", file)):
        result = lockgate.run(given, tmp_path / name, quiet=True)
        assert result.experiment == experiment
        assert last_bits(tmp_path / name) == last_bits(tmp_path / "command")


def test_names_stand_in_for_those_of_the_experiment(tmp_path: Path) -> None:
    base = replace(tiny.experiment(), options={})
    result = lockgate.run(base, tmp_path / "run", method="hat", network="mlp", quiet=True)
    assert (result.experiment.method, result.experiment.backbone) == ("hat", "mlp")
    assert set(result.experiment.options) == {field.name for field in fields(METHODS["hat"].Options)}


def test_objects_give_the_bits_of_the_names_they_stand_for(
    tmp_path: Path, last_bits: Bits, scenario: Scenario, own: Path, whole_own: Path
) -> None:
    run_by_name(tiny.experiment("finetune", "mlp"), tmp_path / "named")
    assert last_bits(whole_own) == last_bits(tmp_path / "named")
    written = yaml.safe_load((whole_own / "config.yaml").read_text())
    assert written["objects"]["method"].endswith(":Mine")
    assert (written["dataset"], written["tasks"]) == ("own-data", 2)
    with pytest.raises(CheckpointError):  # half a run of another's is not mistaken for the whole
        lockgate.resume(own, scenario=replace(scenario, class_names=tuple("wxyz")), method=Mine, network=network)
    result = lockgate.resume(own, scenario=scenario, method=Mine, network=network, quiet=True)
    assert result.finished
    assert last_bits(own) == last_bits(whole_own)


def test_a_recipe_is_fitted_to_tasks_and_a_network_that_are_given(tmp_path: Path, scenario: Scenario) -> None:
    given = {"preset": "short", "dataset": "cifar10", "method": "finetune", "model": {"width": 4}, "epochs": 1}
    described = lockgate.run(given, tmp_path / "run", scenario=scenario, network=network, quiet=True).experiment
    assert described.optim.batch_size == 16, "by the images there are, not by those of CIFAR-10"
    assert not described.augment.random_flip, "the recipe of a network of one's own, not CIFAR-10's ResNet-18"
    assert described.augment.random_translate == max(scenario.image_shape[1:]) // 14


def test_a_network_is_begun_with_and_left_alone(tmp_path: Path, scenario: Scenario) -> None:
    learner = lockgate.make_method("ccgn", scenario.image_shape, network="mlp", model={"width": 6}, seed=3)
    mine = learner.backbone
    before = {name: value.clone() for name, value in mine.state_dict().items()}
    experiment = tiny.experiment("ccgn", data={"class_seed": 0})
    result = lockgate.run(experiment, tmp_path / "run", network=mine, quiet=True)
    assert all(torch.equal(value, before[name]) for name, value in mine.state_dict().items())
    assert result.method.backbone is not mine
    assert result.method.backbone.widths() == [6, 6]
    assert lockgate.audit(tmp_path / "run", network=mine).ok


@pytest.mark.parametrize("command", ["resume", "audit", "evaluate", "export"])
def test_the_command_refuses_a_run_with_objects_by_name_and_says_what_to_do(
    own: Path, command: str, capsys: pytest.CaptureFixture[str], tree: Any
) -> None:
    before = tree(own)
    assert main([command, str(own)]) == 1
    said = capsys.readouterr().err
    assert f"lockgate.resume('{own}'" in said
    assert "Mine" in said
    assert "method=..." in said
    assert tree(own) == before


def test_the_config_of_a_run_with_objects_is_no_experiment_for_the_command(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(own / "config.yaml"), "--out", str(tmp_path / "new")]) == 2
    assert "Mine" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_what_is_passed_again_must_be_what_was_passed(own: Path, finished: Path, scenario: Scenario) -> None:
    with pytest.raises(RunFolderError, match=r"scenario \(own-data\).*scenario=\.\.\."):
        lockgate.resume(own, method=Mine, network=network)
    with pytest.raises(RunFolderError, match=r"the method .*Mine\. Got .*CCGN"):
        lockgate.resume(own, scenario=scenario, method=CCGN, network=network)
    with pytest.raises(RunFolderError, match="Leave `method` out"):
        lockgate.resume(finished, method=Mine)
    lockgate.load(own)  # to read numbers, nothing is needed
    assert lockgate.load(own, method=Mine, network=network).predict(scenario.tasks[0].test.x, 0).shape == (8,)
    with pytest.raises(RunFolderError, match=r"network=\.\.\."):
        _ = lockgate.load(own, method=Mine).method


def test_a_run_without_a_folder_gets_a_fresh_one_that_says_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: Scenario
) -> None:
    monkeypatch.chdir(tmp_path)
    quick = tiny.experiment(epochs=1)
    paths = [lockgate.run(quick, quiet=True).path for _ in range(2)]
    paths.append(lockgate.run(quick, method=Mine, scenario=scenario, quiet=True).path)
    assert [str(path) for path in paths] == [
        "runs/finetune-synthetic-seed0",
        "runs/finetune-synthetic-seed0-2",
        "runs/Mine-own-data-seed0",
    ]
    with pytest.raises(ConfigError):
        lockgate.run(replace(quick, dataset="nonsense"))
    assert len(list((tmp_path / "runs").iterdir())) == 3


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"method": Finetune.__new__(Finetune)}, "must be a class. Got a Finetune"),
        ({"method": nn.Linear}, "sub-class of Method. Got Linear"),
        ({"method": 3}, "sub-class of Method or a name. Got int"),
        ({"method": "ccng"}, "Did you mean 'ccgn'"),
        ({"scenario": [1, 2]}, "Scenario or a name. Got list.*split_tasks"),
        ({"network": 3}, "'network' is a int. Wanted an nn.Module class, or a function"),
        ({"network": lambda *_: 3}, "must make a Backbone or an nn.Module. Got int"),
        ({"method": "hat", "network": nn.Flatten()}, "method 'hat' cannot work on backbone"),
    ],
)
def test_a_wrong_object_is_said_before_a_folder_is_made(tmp_path: Path, given: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        lockgate.run(tiny.experiment(), tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_what_other_processes_cannot_find_is_refused_with_several_devices(tmp_path: Path) -> None:
    class Local(Finetune):
        pass

    with pytest.raises(ConfigError, match="top of a module"):
        lockgate.run(tiny.experiment(devices=2), tmp_path / "run", method=Local)


def test_two_ranks_take_objects_and_callbacks(tmp_path: Path, scenario: Scenario) -> None:
    result = lockgate.run(
        tiny.experiment(devices=2, epochs=1),
        tmp_path / "run",
        scenario=scenario,
        method=Mine,
        callbacks=[Notes(tmp_path / "notes")],
        quiet=True,
    )
    assert result.finished
    assert (tmp_path / "notes").read_text().split() == ["epoch", "task", "epoch", "task", "end"]


class Notes(lockgate.Callback):
    """Writes to a file: it lives in a process of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _note(self, word: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{word}\n")

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        self._note("epoch")

    def on_task_end(self, record: dict[str, Any]) -> None:
        self._note("task")

    def on_run_end(self, summary: dict[str, Any]) -> None:
        self._note("end")


def test_where_no_folder_can_be_made_it_says_so_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(RunFolderError, match=r"Cannot make .*runs.*Say where the run may go: `out`"):
        lockgate.run({"method": "finetune", "dataset": "digits"})
