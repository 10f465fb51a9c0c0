"""What the presets must give every method alike, and what they must not."""

from __future__ import annotations

import dataclasses

import pytest

from lockgate import presets
from lockgate.cli.main import main
from lockgate.methods import METHODS
from lockgate.presets import paper, short

REPLAY = ("full-replay", "icarl", "agem", "gdumb", "er", "er-ace", "der++")

DATASETS = ("mnist", "svhn", "cifar10", "imagenet50")
SELECTION_IS_ITS_OWN = (*REPLAY, "cgen", "ccgn-episodic", "ccgn-generative")


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("preset", [short, paper])
def test_all_methods_share_one_optimiser(preset, dataset):
    plain = preset("finetune", dataset).optim
    for method in METHODS:
        optim = preset(method, dataset).optim
        assert dataclasses.replace(optim, selection=plain.selection) == plain, method
        assert method in SELECTION_IS_ITS_OWN or optim == plain


@pytest.mark.parametrize("method", [*REPLAY, "cgen", "ccgn-episodic", "ccgn-generative"])
def test_who_has_a_memory_is_not_selected_by_the_newest_task_but_in_the_papers_own_schedule(method):
    assert short(method, "mnist").optim.selection == "last"
    assert paper(method, "mnist").optim.selection == "objective"  # "for all models", Section 4.1


def test_masks_of_hat_learn_faster_too_where_there_is_little_time():
    assert short("hat", "mnist").options["embedding_lr"] > 1
    assert paper("hat", "mnist").options.get("embedding_lr", 1.0) == 1


@pytest.mark.parametrize("dataset", ["mnist", "svhn"])
@pytest.mark.parametrize("method", REPLAY)
def test_images_of_baselines_that_learn_from_a_memory_vary_as_ours_do(method, dataset):
    ours, theirs = short("ccgn-episodic", dataset).augment, short(method, dataset).augment
    if method == "agem":  # its memory is never learnt from: both gradients are of images as they are
        assert not theirs.active
    else:
        assert dataclasses.replace(theirs, images=ours.images) == ours
        assert theirs.active


def test_a_preset_names_the_file_its_settings_come_from(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    (tmp_path / "short").mkdir()
    values = "all: {epochs: 3}\nhat: {epochs: 4}\n"
    (tmp_path / "short" / "mnist.yaml").write_text("source: results/select/mnist\n" + values)
    (tmp_path / "short" / "svhn.yaml").write_text("source: {hat: a/hat.yaml, lwf: a/lwf.yaml}\n" + values)
    (tmp_path / "short" / "default.yaml").write_text(values)
    assert (short("hat", "mnist").epochs, short("lwf", "svhn").epochs) == (4, 3)
    assert presets.sources("short") == {
        "mnist": "results/select/mnist",
        "svhn": "a/hat.yaml (hat), a/lwf.yaml (lwf)",
    }
    assert main(["list", "presets"]) == 0
    assert "mnist: chosen by results/select/mnist" in capsys.readouterr().out
