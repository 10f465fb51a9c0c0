"""On a network of another make, gated methods do all that they do on Lockgate's own: resume, restore, many tasks."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny

from lockgate.evaluation.accuracy import class_incremental
from lockgate.runs.run import run
from lockgate.testing import method_contract, walk

NETWORK = "tests.support.networks:Concatenated"
TestFound = method_contract("ccgn-episodic", [NETWORK], experiment=tiny.experiment)


def gated(method, backbone, **over):
    return tiny.experiment(method, backbone, **{"model": {"gates": True}, **over})


TestGated = method_contract("ccgn", [NETWORK], options={"sparsity": 0.3, "prune": 0.2, "budget": 0.5}, experiment=gated)


@pytest.mark.parametrize("readout", ["ridge", "mlp"])
def test_without_the_task_a_read_out_of_the_whole_network_and_of_streams_finds_it(readout, tmp_path):
    data = {"synthetic_classes": 4, "synthetic_per_class": 60}
    options = {"readout": readout, "buffer": 80}
    experiment = tiny.experiment("ccgn-episodic", NETWORK, epochs=3, data=data, options=options)
    summary = run(experiment, tmp_path / "run")
    assert summary["audit"]["ok"]
    assert summary["audit"]["streams"] > 0
    if readout == "ridge":
        *_, (learner, seen) = walk(experiment)
        read = [stream.shape[1] - learner.backbone.features for stream in learner.streams(seen[0].test.x)]
        assert learner.readout.inputs.tolist() == read
        assert read[0] > read[1], "the network as it was given is read once, with the first stream"
        chance = 1 / 4
        assert sum(class_incremental(learner, seen)) / 2 > 1.5 * chance


def test_gates_that_are_asked_for_close_and_what_they_shut_stays_shut():
    options = {"sparsity": 20.0, "sparsity_warmup": 0, "gate_lr": 30.0, "prune": 0.0}
    experiment = tiny.experiment("ccgn", NETWORK, epochs=6, model={"gates": True}, options=options)
    for learner, seen in walk(experiment):
        x = learner.input(seen[0].test.x)
        with torch.no_grad():
            gates = learner.eval().backbone(x, seen[-1].id).gates
        sealed = [layer.gate(seen[-1].id).seal for layer in learner.gated.values()]
        assert any(not bool(seal.all()) for seal in sealed), "no gate closed: the test would prove nothing"
        assert all(bool((g.sum(0)[~seal] == 0).all()) for g, seal in zip(gates, sealed, strict=True))
