"""What the task classifier reads of past streams, channel by channel."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny

from lockgate.methods.ccgn.streams import Streams


@pytest.fixture
def streams():
    """Of a learner in its third task; the last layer has 8 channels, of which the first two tasks seal some."""
    learner, scenario = tiny.world("ccgn-episodic", width=8)
    for task in scenario.tasks:
        learner.begin_task(task)
        if task.id < 2:
            tiny.vary_gates(learner, task.id)
            learner.end_task(task)
    learner.eval()
    return Streams(learner, learner.task_classifier), scenario.tasks[0].test.x[:5]


def sealed(streams, task):
    return [k for k, open_ in enumerate(streams.network.gated["conv3"].gate(task).seal.tolist()) if open_]


def test_channels_that_can_open_are_the_sealed_ones_and_of_the_newest_all(streams):
    streams, _ = streams
    assert 0 < len(sealed(streams, 0)) < 8, "nothing is cut: the test would prove nothing"
    assert [streams.open_channels(t).tolist() for t in range(3)] == [
        sealed(streams, 0),
        sealed(streams, 1),
        list(range(8)),
    ]


def test_columns_are_their_places_among_the_classifiers_inputs(streams):
    streams, _ = streams
    assert streams.classifier.inputs == [8, 8, 8]
    assert streams.columns().tolist() == sealed(streams, 0) + [8 + k for k in sealed(streams, 1)]


@torch.no_grad()
def test_past_and_all_are_the_streams_side_by_side_at_those_channels(streams):
    streams, x = streams
    network = streams.network
    whole = [network.backbone(network.input(x), t).features for t in range(3)]
    rows = [[f[i, k].item() for t, f in enumerate(whole[:2]) for k in sealed(streams, t)] for i in range(len(x))]
    assert streams.past(x).tolist() == rows
    assert streams.all(x).tolist() == [row + newest for row, newest in zip(rows, whole[2].tolist(), strict=True)]


@torch.no_grad()
def test_classifying_is_a_dense_mlp_on_everything(streams):
    streams, x = streams
    features = streams.features(x, range(3))
    squeeze, out = streams.classifier.squeeze, streams.classifier.out
    hidden = (torch.cat(features, 1) @ squeeze.weight.T + squeeze.bias).clamp(min=0)
    torch.testing.assert_close(streams.classify(features), hidden @ out.weight.T + out.bias)


def test_of_a_single_task_the_past_is_empty():
    learner, scenario = tiny.world("ccgn-episodic", width=8)
    learner.begin_task(scenario.tasks[0])
    streams = Streams(learner, learner.task_classifier)
    assert streams.joined([], torch.ones(4, 8, dtype=torch.float64)).shape == (4, 0)
    assert streams.joined([], torch.ones(4, 8, dtype=torch.float64)).dtype == torch.float64
    assert streams.columns().tolist() == []


def test_what_was_counted_is_counted_anew_when_channels_changed(streams):
    streams, _ = streams
    before = streams.columns().tolist()
    last = streams.network.gated["conv3"]
    last.gate(0).seal.fill_(False)
    last.gate(0).seal[3] = True
    streams.network.backbone.route([0])
    assert streams.columns().tolist() == before, "a step does not count again"
    streams.changed()
    assert streams.columns().tolist() == [3, *(8 + k for k in sealed(streams, 1))]
