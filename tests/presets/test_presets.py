"""What the presets must give every method alike, and what they must not."""

from __future__ import annotations

import copy
import dataclasses

import pytest

from lockgate.cli.main import main
from lockgate.methods import METHODS
from lockgate.presets import PRESETS, paper, short

REPLAY = ("full-replay", "icarl", "agem", "gdumb", "er", "er-ace", "der++")

DATASETS = ("mnist", "svhn", "cifar10", "imagenet50")
SELECTION_IS_ITS_OWN = (*REPLAY, "cgen", "ccgn-episodic", "ccgn-generative")


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("preset", [short, paper])
def test_all_methods_share_one_optimiser(preset, dataset):
    plain = preset("finetune", dataset, chosen=False).optim
    for method in METHODS:
        optim = preset(method, dataset, chosen=False).optim
        assert dataclasses.replace(optim, selection=plain.selection) == plain, method
        assert method in SELECTION_IS_ITS_OWN or optim == plain


@pytest.mark.parametrize("method", [*REPLAY, "cgen", "ccgn-episodic", "ccgn-generative"])
def test_who_has_a_memory_is_not_selected_by_the_newest_task_but_in_the_papers_own_schedule(method):
    assert short(method, "mnist", chosen=False).optim.selection == "last"
    assert paper(method, "mnist").optim.selection == "objective"  # "for all models", Section 4.1


def test_masks_of_hat_learn_faster_too_where_there_is_little_time():
    assert short("hat", "mnist", chosen=False).options["embedding_lr"] > 1
    assert paper("hat", "mnist").options.get("embedding_lr", 1.0) == 1


def test_what_presets_there_are_is_listed_with_their_files(capsys):
    assert main(["list", "presets"]) == 0
    told = capsys.readouterr().out
    assert "files: default, efficientnet_lite0, resnet18, simple_cnn" in told
    assert "files: cifar10, imagenet50, mnist, svhn" in told


@pytest.mark.parametrize("preset", list(PRESETS))
def test_who_changes_the_options_of_an_experiment_changes_no_other(preset: str) -> None:
    first = PRESETS[preset]("ccgn-generative", "mnist")
    wanted = copy.deepcopy(first.options)
    first.options["gan"]["width"] = 7.0
    assert PRESETS[preset]("ccgn-generative", "mnist").options == wanted
