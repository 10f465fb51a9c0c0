"""A stream begins as the companion: the same features, in free filters alone, whatever room there is."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny

from lockgate.backbones.mlp import MLP
from lockgate.backbones.resnet import ResNet
from lockgate.backbones.simple_cnn import SimpleCNN
from lockgate.config import ModelConfig
from lockgate.methods.base import Method
from lockgate.methods.ccgn.companion import Companion
from lockgate.methods.ccgn.method import CCGN
from lockgate.methods.ccgn.options import CCGNOptions
from lockgate.methods.ccgn.start import begin_as
from lockgate.runs.build import build_scenario
from lockgate.testing import walk

KINDS = {
    "simple_cnn": (SimpleCNN, {}),
    "resnet18": (ResNet, {"blocks": [1, 1]}),
    "mlp": (MLP, {}),
}


def networks(kind: str, width: int, narrow: int):
    """A gated network about to learn its second task, filters 0 and 1 of each layer locked, and a companion."""
    torch.manual_seed(0)
    make, config = KINDS[kind]
    gated = make((3, 8, 8), CCGN.layer_factory("he", CCGNOptions()), ModelConfig(width=width, **config))
    companion = Companion(make((3, 8, 8), Method.layer_factory("he", None), ModelConfig(width=narrow, **config)))
    for _ in range(2):
        gated.add_task()
        companion.add_task(2, rehearsed=True)
    for layer in gated.layers.values():
        relevant = torch.arange(layer.width) < 2
        layer.lock(relevant, 0)
        torch.nn.init.zeros_(layer.gate(1).excite.weight)  # all gates of the new stream are open
        torch.nn.init.constant_(layer.gate(1).excite.bias, 5.0)
    for norm in (group.norms for group in companion.backbone.channels):
        for module in norm:
            torch.nn.init.uniform_(module.running_mean, -0.2, 0.2)
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
    return gated.eval(), companion.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_the_new_stream_has_the_companions_features_beside_the_locked_ones(kind):
    gated, companion = networks(kind, width=8, narrow=4)
    locked = {name: layer.weight.detach()[:2].clone() for name, layer in gated.layers.items()}
    begin_as(gated, companion, 1)
    x = torch.randn(5, 3, 8, 8)
    with torch.no_grad():
        found, wanted = gated(x, 1).features, companion.backbone(x, 0).features
    width = wanted.shape[1]
    torch.testing.assert_close(found[:, 2 : 2 + width], wanted)
    assert wanted.abs().max() > 0
    assert all(torch.equal(layer.weight[:2], locked[name]) for name, layer in gated.layers.items())


@pytest.mark.parametrize("kind", KINDS)
def test_where_room_is_short_what_matters_most_is_taken(kind):
    gated, companion = networks(kind, width=6, narrow=5)
    first, other = next(iter(gated.layers.values())), next(iter(companion.backbone.layers.values()))
    with torch.no_grad():
        other.weight[3] *= 1e-3  # of five channels of the first layer, four have room
    before = first.weight.detach().clone()
    begin_as(gated, companion, 1)
    assert torch.equal(first.weight[2:], other.weight[[0, 1, 2, 4]])
    assert torch.equal(first.weight[:2], before[:2])


def test_a_filter_that_is_locked_in_one_writer_of_shared_channels_stays():
    gated, companion = networks("resnet18", width=4, narrow=3)
    stem, second = gated.layers["stem"], gated.layers["stage1.block1.conv2"]
    second.lock(torch.tensor([False, False, True, False]), 0)
    before = second.weight.detach().clone()
    begin_as(gated, companion, 1)
    assert torch.equal(second.weight[:3], before[:3]), "two of them were locked before, the third now"
    assert not torch.equal(second.weight[3], before[3])
    rows = companion.backbone.layers["stem"].weight
    assert all(any(torch.equal(row, other) for other in rows) for row in stem.weight[2:]), "free in this writer"


def test_a_task_of_a_run_begins_so_and_the_first_one_at_random():
    experiment = tiny.experiment("ccgn-episodic")
    learner = next(walk(experiment))[0]
    task = build_scenario(experiment).tasks[1]
    first = learner.backbone.layers["conv1"]
    locked = first.locked.clone()
    rows = learner.companion.backbone.layers["conv1"].weight.detach().clone()
    assert not _holds(first.weight[~locked], rows[0]), "before the second task it is as the first left it"
    before = first.weight.detach()[locked].clone()
    learner.begin_task(task)
    taken = sum(_holds(first.weight[~locked], row) for row in rows)
    assert taken == min(len(rows), int((~locked).sum()))
    assert torch.equal(first.weight[locked], before)


def test_without_a_companion_streams_begin_at_random():
    experiment = tiny.experiment("ccgn-episodic", options={"companion": 0.0})
    learner = next(walk(experiment))[0]
    before = learner.backbone.layers["conv2"].weight.detach().clone()
    learner.begin_task(build_scenario(experiment).tasks[1])
    assert torch.equal(learner.backbone.layers["conv2"].weight, before)


def _holds(rows: torch.Tensor, row: torch.Tensor) -> bool:
    return any(torch.equal(row, other) for other in rows)
