"""``timm:NAME`` where timm imports: real loading code, and a small package of that name in the place of timm's own.

torchvision, which timm needs, does not import beside torch for CPUs, so timm itself cannot be here. The package below
has the four functions and the attributes of timm's that are asked for, with timm's signatures.
"""

from __future__ import annotations

import sys

import pytest
import torch

from lockgate import make_method
from lockgate.errors import LockgateError, UnknownNameError
from lockgate.evaluation.exactness import logits
from lockgate.runs.run import run
from lockgate.testing import tiny_experiment, walk

PACKAGE = """
from torch import nn
from timm import data

class Small(nn.Module):
    def __init__(self, in_chans, num_classes=10):
        super().__init__()
        self.blocks = nn.Sequential(*(
            nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 1))
            for a, b in ((in_chans, 8), (8, 12))
        ))
        self.fc = nn.Linear(12, num_classes)
        self.pretrained_cfg = {"input_size": (3, 48, 48), "mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6)}

    def forward(self, x):
        return self.fc(self.blocks(x).mean((2, 3)))

def list_models(filter="", pretrained=False):
    return ["small", "smaller"]

def create_model(model_name, pretrained=False, **kwargs):
    if model_name.startswith("smaller"):
        raise RuntimeError("No module named 'torchvision.ops'")
    network = Small(**kwargs)
    if pretrained:
        nn.init.constant_(network.fc.bias, 7.0)
        nn.init.constant_(network.blocks[0][0].bias, 7.0)
    return network
"""
DATA = """
def resolve_data_config(args=None, pretrained_cfg=None, model=None, use_test_size=False, verbose=False):
    return {**model.pretrained_cfg, "interpolation": "bicubic", "crop_pct": 0.875}
"""


@pytest.fixture
def timm(tmp_path, monkeypatch):
    """A package of that name, first on the path."""
    place = tmp_path / "site" / "timm"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(PACKAGE)
    (place / "data.py").write_text(DATA)
    for name in [name for name in sys.modules if name.partition(".")[0] == "timm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(place.parent))
    yield place
    for name in [name for name in sys.modules if name.partition(".")[0] == "timm"]:
        del sys.modules[name]


@pytest.mark.parametrize("weights", ["", "pretrained"])
def test_a_network_of_timm_brings_its_preprocessing_and_its_weights_if_asked(timm, weights):
    learner = make_method("ccgn", (3, 16, 16), network="timm:small", model={"weights": weights})
    assert learner.input.mean.flatten().tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert learner.input.std.flatten().tolist() == pytest.approx([0.4, 0.5, 0.6])
    assert learner.backbone.features == 12, "the head is left out"
    bias = learner.backbone.module.blocks[0][0]._parameters["bias"]
    assert bool((bias == 7).all()) == (weights == "pretrained")


def test_past_answers_stay_on_a_network_of_timm(timm):
    first = None
    for learner, seen in walk(tiny_experiment("ccgn", "timm:small", epochs=1)):
        now = logits(learner, seen[0])
        first = now if first is None else first
        assert torch.equal(first, now)
    assert len(seen) > 1


def test_it_can_be_run_by_name_and_is_audited(timm, tmp_path):
    summary = run(tiny_experiment("slda-ridge", "timm:small"), tmp_path / "run")
    assert summary["audit"]["ok"]


def test_what_timm_does_not_have_or_cannot_make_is_said(timm):
    with pytest.raises(UnknownNameError, match=r"timm has no network 'smal'.*small"):
        make_method("ccgn", (3, 16, 16), network="timm:smal")
    with pytest.raises(LockgateError, match=r"(?s)Making the network 'timm:smaller'.*torchvision"):
        make_method("ccgn", (3, 16, 16), network="timm:smaller")
