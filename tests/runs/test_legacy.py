"""What Lockgate 0.1 wrote is read as it is: run folders, models, their promises, and the results that are kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from tests.support import folders

from lockgate.app.audit import audit_run
from lockgate.app.trained import open_trained
from lockgate.config import Experiment
from lockgate.errors import CheckpointError
from lockgate.evaluation.accuracy import class_incremental, task_incremental
from lockgate.runs.directory import read_experiment
from lockgate.runs.legacy import upgraded, upgraded_command
from lockgate.runs.loading import load
from lockgate.runs.run import resume

OLD = Path(__file__).with_name("written_by_0_1")
"""Made by 0.1 itself (commit c5a663f): `run` on tiny synthetic tasks, and two calls of `learn`."""
RUNS = ("ccgn-episodic", "hat", "dgm", "icarl")
READ = ("ccgn-episodic", "hat", "icarl")
"""Those that are read; of dgm only the settings are, its networks are others now."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD, tmp_path / "old"))


@pytest.mark.parametrize("method", READ)
def test_a_run_loads_and_answers_as_its_summary_says(old: Path, method: str) -> None:
    learner, scenario, _ = load(old / method)
    said = json.loads((old / method / "summary.json").read_text())
    assert task_incremental(learner, scenario.tasks) == said["task_incremental"]["matrix"][-1]
    if said["class_incremental"]:
        assert class_incremental(learner, scenario.tasks) == said["class_incremental"]["matrix"][-1]


def test_a_run_of_dgm_is_refused_by_name(old: Path) -> None:
    with pytest.raises(CheckpointError, match=r"run of dgm has a generator of 4 masked layers.*run it anew"):
        load(old / "dgm")


@pytest.mark.parametrize("name", ["ccgn-episodic", "hat", "model"])
def test_what_was_promised_is_kept_to_the_bit(old: Path, name: str) -> None:
    verdict = audit_run(old / name)
    assert verdict.ok, verdict.text()
    *_, end = map(json.loads, (OLD / name / "records.jsonl").read_text().splitlines())
    assert (verdict.tensors, verdict.logits) == (end["audit"]["tensors"], 2), "as many as 0.1 counted itself"


def test_a_changed_filter_is_found_in_an_old_run_too(old: Path) -> None:
    from safetensors.torch import load_file, save_file

    (file,) = (old / "ccgn-episodic" / "checkpoints").glob("*-task/learner.safetensors")
    state = load_file(file)
    state["backbone.conv1.weight"][state["backbone.conv1.owner"] == 0] += 1e-3
    save_file(state, file)
    from tests.support.tiny import sign

    sign(file.parent)
    assert not audit_run(old / "ccgn-episodic").ok


def test_a_finished_run_that_is_resumed_says_the_same(old: Path) -> None:
    said = json.loads((old / "ccgn-episodic" / "summary.json").read_text())
    now = resume(old / "ccgn-episodic")["class_incremental"]
    assert now.pop("average_incremental") > 0, "which earlier versions did not say"
    assert now == said["class_incremental"]


def test_a_model_learns_one_more_task_and_keeps_its_answers(old: Path, tmp_path: Path) -> None:
    images = torch.from_numpy(folders.images("cat", 5))[:, None]
    before = open_trained(old / "model").probabilities(images, 0)
    plants = folders.write(tmp_path / "plants", {"oak": 8, "elm": 8})
    folders.teach(old / "model", plants, folders.UserSettings(epochs=1, batch_size=8))
    trained = open_trained(old / "model")
    assert trained.tasks == ("pets", "tools", "plants")
    assert torch.equal(trained.probabilities(images, 0)[:, :2], before[:, :2])
    assert audit_run(old / "model").ok


def test_its_settings_are_read_in_todays_words() -> None:
    experiment = read_experiment(OLD / "ccgn-episodic" / "config.yaml")
    assert experiment.options["sparsity_warmup"] == "loss"
    assert experiment.options["anneal"] == 0.3
    assert experiment.options["prune"] == 0.2
    assert (experiment.augment.random_translate, experiment.augment.random_affine) == (1, 0.1)
    assert experiment.augment.images == "rehearsed"
    gan = read_experiment(OLD / "dgm" / "config.yaml").options["gan"]
    assert (gan["iterations"], gan["average"]) == (3, 0.5)


def test_what_is_of_today_is_left_as_it_is(tmp_path: Path) -> None:
    from tests.support import tiny

    for method in RUNS:
        values = tiny.experiment(method, augment={"random_flip": True}).to_dict()
        assert upgraded(values) == values


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


def test_a_command_is_said_in_todays_flags() -> None:
    typed = "run short --options.gan_iterations 3000 --options.settle=0.3 --optim.flip true --options.look 50 --seed 1"
    said = "run short --options.gan.iterations 3000 --options.anneal=0.3 --augment.random_flip true"
    assert upgraded_command(typed.split()) == [*said.split(), "--options.look", "50", "--seed", "1"]
    rehearsed = ["--augment.random_translate", "2", "--augment.images", "rehearsed"]
    assert upgraded_command(["run", "--options.shift", "2"]) == ["run", *rehearsed]
