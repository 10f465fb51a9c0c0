"""Lock, re-initialise, seal, on scores written by hand; how relevance is counted is in ``test_method.py``."""

from __future__ import annotations

import pytest
import torch

from lockgate.layers.gated import GatedLinear
from lockgate.layers.lock import FREE
from lockgate.methods.capacity import LayerCapacity
from lockgate.methods.ccgn.consolidation import consolidate

FIRST = torch.tensor([0.0, 0.01, 1.0, 0.0])
SECOND = torch.tensor([0.5, 0.0, 1.0, 0.0])


@pytest.fixture
def layers():
    torch.manual_seed(0)
    made = {name: GatedLinear(3, 4) for name in ("one", "two")}
    for layer in made.values():
        layer.add_task()
        layer.add_task()
    return made


def test_any_image_makes_a_filter_relevant_and_a_second_task_takes_only_what_is_free(layers):
    nothing = torch.zeros(4)
    found = consolidate(layers, [FIRST, nothing], task=0)
    assert found == [LayerCapacity("one", 4, 2, 2), LayerCapacity("two", 4, 0, 0)]
    assert layers["one"].owner.tolist() == [FREE, 0, 0, FREE]
    found = consolidate(layers, [SECOND, torch.ones(4)], task=1)
    assert found == [LayerCapacity("one", 4, 3, 2), LayerCapacity("two", 4, 4, 4)]
    assert layers["one"].owner.tolist() == [1, 0, 0, FREE]
    assert layers["two"].owner.tolist() == [1] * 4


def test_locked_filters_keep_their_bits_and_free_ones_begin_anew(layers):
    layer = layers["one"]
    consolidate({"one": layer}, [FIRST], task=0)
    before = layer.weight.detach().clone()
    consolidate({"one": layer}, [SECOND], task=1)
    kept = [bool(torch.equal(now, then)) for now, then in zip(layer.weight, before, strict=True)]
    assert kept == [True, True, True, False], "of four filters the last is still free"


@pytest.mark.parametrize("seal", [True, False])
def test_the_seal_is_the_relevant_set_or_everything(layers, seal):
    consolidate({"one": layers["one"]}, [FIRST], task=0, seal=seal)
    assert layers["one"].gate(0).seal.tolist() == ([False, True, True, False] if seal else [True] * 4)
    assert layers["one"].gate(1).seal.all(), "later tasks are not sealed yet"
