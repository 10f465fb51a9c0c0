"""Lock, re-initialise, seal, on scores written by hand; how relevance is counted is in ``test_method.py``."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny

from lockgate.layers.gated import GatedLinear
from lockgate.layers.lock import FREE
from lockgate.methods.capacity import LayerCapacity
from lockgate.methods.ccgn.consolidation import consolidate, forget_shut
from lockgate.runs.build import build_learner, build_scenario

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


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18"])
def test_what_is_forgotten_of_shut_channels_changes_no_answer(backbone):
    experiment = tiny.experiment("ccgn-episodic", backbone, model={"width": 16})
    learner = build_learner(experiment, build_scenario(experiment).image_shape)
    torch.manual_seed(0)
    images = torch.randint(0, 256, (20, *learner.image_shape), dtype=torch.uint8)
    for task in range(2):
        learner.add_task(2)
        for layer in learner.gated.values():
            layer.seal(torch.arange(layer.width) % 3 == task, task)
        learner.backbone.route([task])
    learner.eval()
    with torch.no_grad():
        before = [learner.logits(images, 0), learner.logits(images, 1), learner.answers(images)["joint"]]
        for task in range(2):
            forget_shut(learner, task)
            learner._streams.forget_shut(task)
        after = [learner.logits(images, 0), learner.logits(images, 1), learner.answers(images)["joint"]]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    last = list(learner.gated.values())[-1]
    for weight in (
        learner.heads[0].weight.T,
        last.gate(0).excite.weight,
        *([norm.norms[0].running_var[:, None] for norm in learner.backbone.channels[-1].norms]),
        learner.task_classifier.squeeze.weight.T[:16],
    ):
        assert (weight.abs().sum(1) > 0).tolist() == [channel % 3 == 0 for channel in range(len(weight))]
