"""``lockgate check-network``: what is found is told, and what breaks the promise fails."""

from __future__ import annotations

import pytest
import torch
from tests.support.networks import Concatenated
from torch import nn

from lockgate.app.network import check_network
from lockgate.cli.main import main

NETWORK = "tests.support.networks:Concatenated"


class Detached(nn.Module):
    """Gradients end in the middle."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.out = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.two(self.one(x).detach()).mean((2, 3)))


def test_what_a_network_becomes_is_counted():
    found = check_network(NETWORK, 16)
    assert found.ok
    assert (found.maps, found.private, found.norms, found.features, found.head) == (6, 6, 2, 24, "out")
    assert found.parameters == sum(v.numel() for k, v in Concatenated().named_parameters() if "out" not in k)
    assert "bit-equal after a second task" in found.text()
    assert "without gates no channel is ever shut" in found.text()


class Recurrent(nn.Module):
    """Half of it is of kinds that have no rows for a task."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)
        self.up = nn.utils.parametrizations.weight_norm(nn.ConvTranspose2d(4, 4, 2))
        self.reads, self.scale = nn.GRU(4, 4, batch_first=True), nn.Parameter(torch.ones(1))
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        rows = self.up(self.two(self.one(x))).mean(2).transpose(1, 2) * self.scale
        return self.out(self.reads(rows)[0][:, -1])


def test_parts_of_which_a_task_has_nothing_are_named_with_their_parameters():
    found = check_network(f"{__name__}:Recurrent", 16)
    assert found.ok
    up, reads = 4 * 4 * 2 * 2 + 4 + 4, 2 * 3 * (4 * 4 + 4)  # weights, magnitudes, biases; three gates each of both
    assert dict(found.without_own) == {
        "scale": 1,
        "up (ParametrizedConvTranspose2d)": up,
        "reads (GRU)": reads,
    }
    assert f"{1 + up + reads} parameters of which a task has none of its own: scale, up" in found.text()
    assert "none of its own" not in check_network(NETWORK, 16).text()


def test_what_can_be_cut_is_told_with_what_keeps_the_rest():
    found = check_network(NETWORK, 16, gates=True)
    assert (found.cuttable.gated, found.cuttable.channels) == (56, 8)  # the stem; the others are normed in groups
    assert "8 of 56 channels with gates leave a compiled stream if shut; some others are kept by" in found.text()
    assert "native_group_norm" in found.text()
    none = check_network("tests.support.networks:Loose", 16, gates=True)
    assert "the stream as it is: of 12 channels with gates none can leave" in none.text()


def test_layers_that_no_gradient_reaches_are_named():
    found = check_network(f"{__name__}:Detached", 16)
    assert not found.ok
    assert any(name.startswith("backbone.module.one.") for name in found.deaf)


def test_the_command_prints_it_and_says_by_its_code_whether_all_is_well(capsys):
    assert main(["check-network", NETWORK, "--size", "16", "--gates"]) == 0
    assert "gates        5" in capsys.readouterr().out
    assert main(["check-network", "simple_cnn"]) == 2
    assert main(["check-network", f"{__name__}:Detached", "--size", "16"]) == 1
    assert main(["check-network", "tests.support.networks:Plain", "--size", "3"]) != 0  # too small for its layers


@pytest.mark.parametrize("name", ["no_such_network", "no.such:module"])
def test_a_name_that_is_not_there_is_told(name, capsys):
    assert main(["check-network", name]) == 2
    assert "no" in capsys.readouterr().err
