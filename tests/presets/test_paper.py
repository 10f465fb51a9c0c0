"""Presets are complete, valid experiments; `paper` is the paper's table, number by number."""

from __future__ import annotations

from typing import Any

import pytest

from lockgate.config import Experiment
from lockgate.data import DATASETS
from lockgate.errors import ConfigError
from lockgate.methods import METHODS
from lockgate.presets import PRESETS, paper, printed
from lockgate.runs.build import experiment_from, validated

# The supplement's hyperparameter table, copied by hand: rows "optim" and "our".
TABLE: dict[str, dict[str, Any]] = {
    "mnist": {
        "batch size": 256,
        "learning rate": 0.01,
        "momentum": 0.9,
        "lr decay": None,
        "weight decay": 5e-4,
        "epochs per task": 400,
        "grad. clip": 1,
        "lambda_s": 0.5,
        "sparsity_warmup": 20,
    },
    "svhn": {
        "batch size": 256,
        "learning rate": 0.01,
        "momentum": 0.9,
        "lr decay": [400, 600],
        "weight decay": 5e-4,
        "epochs per task": 800,
        "grad. clip": 1,
        "lambda_s": 0.5,
        "sparsity_warmup": 20,
    },
    "cifar10": {
        "batch size": 64,
        "learning rate": 0.1,
        "momentum": 0.9,
        "lr decay": [100, 150],
        "weight decay": 5e-4,
        "epochs per task": 200,
        "grad. clip": 1,
        "lambda_s": 1,
        "sparsity_warmup": 10,
    },
    "imagenet50": {
        "batch size": 64,
        "learning rate": 0.1,
        "momentum": 0.9,
        "lr decay": [100, 150],
        "weight decay": 5e-4,
        "epochs per task": 200,
        "grad. clip": 1,
        "lambda_s": 1,
        "sparsity_warmup": 0,
    },
}
# Section 4.1: three layers of 100 filters for the digits, ResNet-18 for the photographs.
BACKBONES = {"mnist": "simple_cnn", "svhn": "simple_cnn", "cifar10": "resnet18", "imagenet50": "resnet18"}

GENERATIVE = ("ccgn-generative", "dgm", "cgen")

CASES = [
    (preset, method, dataset)
    for preset in PRESETS
    for method in METHODS
    for dataset in DATASETS
    if preset == "short" or dataset in TABLE or (preset == "printed" and dataset == "digits")
]


@pytest.mark.parametrize(("preset", "method", "dataset"), CASES)
def test_every_preset_is_a_valid_experiment_of_the_method_and_data_set_asked_for(
    preset: str, method: str, dataset: str
) -> None:
    experiment = validated(PRESETS[preset](method, dataset))
    assert (experiment.method, experiment.dataset) == (method, dataset)
    assert validated(experiment) == experiment, "a complete experiment is left as it is"


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("dataset", list(TABLE))
def test_the_paper_preset_is_the_papers_table(method: str, dataset: str) -> None:
    row = TABLE[dataset]
    experiment = validated(paper(method, dataset))
    optim = experiment.optim
    assert optim.optimiser == "sgd"
    assert optim.batch_size == row["batch size"]
    assert optim.lr == row["learning rate"]
    assert optim.momentum == row["momentum"]
    assert optim.weight_decay == row["weight decay"]
    assert optim.clip == row["grad. clip"]
    assert experiment.epochs == row["epochs per task"]
    assert experiment.backbone == BACKBONES[dataset]
    assert experiment.tasks == 5
    if row["lr decay"] is None:
        assert optim.schedule == "constant"
    else:
        assert optim.schedule == "milestones"
        assert list(optim.milestones) == row["lr decay"]
    if method.startswith("ccgn"):
        assert experiment.options["sparsity"] == row["lambda_s"]
        assert experiment.options["sparsity_warmup"] == row["sparsity_warmup"]
        assert experiment.options["gate_lr"] == 1.0, "the paper has one learning rate"
        assert not any(experiment.options[name] for name in ("anneal", "prune", "grow", "budget"))
    elif method not in GENERATIVE:
        assert paper(method, dataset).options == {}, "the method's own defaults"
    if method in ("ccgn-episodic", "ccgn-generative"):
        assert experiment.options["inference"] == "argmax"
        assert not experiment.augment.active, "the paper does not augment what the task classifier sees"
        assert experiment.options["rehearsal"] == 0, "a rehearsal batch is as large as a batch"
        assert experiment.options["readout"] == "mlp", "Eq. 7 finds the task"
        assert (experiment.options["hidden"], experiment.options["targets"]) == (64, "task")
    if method in GENERATIVE:  # the supplement, "WGAN details"
        gan = experiment.options["gan"]
        batch = {"batch_size": 64, "lr": 1e-4, "critic_steps": 5, "penalty_every": 1}
        assert gan == {"width": 1.0, "iterations": 200_000, "average": 0.0, **batch}  # the last weights
        assert not experiment.options.get("mix_real", False)


# smax_g and lamb_G of DGMw in its authors' configurations; they have none for CIFAR-10, but one pair for colour images.
DGM = {"mnist": (1e4, 0.08), "svhn": (1e4, 0.001), "imagenet50": (1e4, 0.001), "cifar10": (1e4, 0.001)}


@pytest.mark.parametrize("preset", ["paper", "printed"])
@pytest.mark.parametrize("dataset", list(DGM))
def test_dgm_has_its_authors_slope_and_price_for_each_data_set(preset: str, dataset: str) -> None:
    options = PRESETS[preset]("dgm", dataset).options
    assert (options["s_max"], options["sparsity"]) == DGM[dataset]


@pytest.mark.parametrize("dataset", [name for name in DATASETS if name not in TABLE])
def test_the_paper_preset_refuses_what_the_paper_did_not_train_on(dataset: str) -> None:
    with pytest.raises(ConfigError, match=f"no schedule for '{dataset}'.*cifar10, imagenet50, mnist, svhn.*short"):
        paper("ccgn", dataset)


def test_validation_lists_problems_of_every_kind_at_once() -> None:
    values = Experiment(method="ccng", backbone="resnet", optim=paper("ccgn", "svhn").optim, devices=7)
    with pytest.raises(ConfigError) as caught:
        validated(values)
    text = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 3
    assert "Unknown method 'ccng'. Did you mean 'ccgn'" in text
    assert "Unknown backbone 'resnet'. Did you mean 'resnet18'" in text
    assert "'optim.batch_size' must be a multiple of the 7 devices. Got 256 instead." in text


def test_options_are_checked_against_the_method() -> None:
    with pytest.raises(ConfigError) as caught:
        validated(Experiment(method="ccgn", options={"sparsty": 1, "sparsity_warmup": -1, "seal": "yes"}))
    assert [problem.split(". ")[0] for problem in caught.value.problems] == [
        "Unknown key 'options.sparsty'",
        "'options.sparsity_warmup' must be at least 0",
        "'options.seal' must be true or false",
    ]
    with pytest.raises(ConfigError, match=r"Unknown key 'options\.sparsity'"):
        validated(Experiment(method="finetune", options={"sparsity": 1}))


def test_milestones_must_be_named_when_the_schedule_needs_them() -> None:
    optim = {"schedule": "milestones"}
    with pytest.raises(ConfigError, match=r"'optim\.milestones' must name an epoch"):
        experiment_from({"optim": optim})
    assert experiment_from({"optim": {**optim, "milestones": [2]}}).optim.milestones == (2,)


def test_validation_fills_in_the_options_that_were_not_given() -> None:
    options = validated(Experiment(method="ccgn", options={"sparsity": 2})).options
    assert options["sparsity"] == 2.0
    assert set(options) > {"sparsity", "sparsity_warmup", "gate_lr", "seal"}


@pytest.mark.parametrize("dataset", [*TABLE, "digits"])
@pytest.mark.parametrize("method", ["ccgn", "ccgn-episodic", "ccgn-generative"])
def test_printed_has_nothing_of_ours(method: str, dataset: str) -> None:
    experiment = validated(printed(method, dataset))
    options = experiment.options
    row = TABLE["mnist" if dataset == "digits" else dataset]
    assert (options["sparsity"], options["sparsity_warmup"]) == (row["lambda_s"], row["sparsity_warmup"])
    assert (options["seal"], options["open_bias"], options["gate_lr"]) == (False, 0.0, 1.0)
    assert not any(options[name] for name in ("anneal", "prune", "grow", "budget"))
    assert not experiment.augment.active
    assert experiment.optim.optimiser == "sgd"
    assert experiment.optim.selection == "objective"
    assert experiment.epochs == row["epochs per task"]
    if method != "ccgn":
        assert (options["hidden"], options["targets"], options["inference"]) == (64, "task", "argmax")
        assert (options["readout"], options["rehearsal"]) == ("mlp", 0)
    if experiment.backbone == "resnet18":
        assert experiment.model.blocks == (2, 2, 2, 1)  # 479,920,128 multiply-accumulates, as printed
