"""A backbone with a head per task, made anew from a few numbers. Its first layer is tested in ``test_plain.py``."""

from __future__ import annotations

import json

import pytest
import torch
from tests.support import tiny

CLASSES = (3, 2, 4)


def grown(method, backbone, widths):
    """A learner of three tasks whose backbone was widened before the third."""
    learner, _ = tiny.world(method, backbone, width=4)
    for t, classes in enumerate(CLASSES):
        if t == 2:
            learner.backbone.grow([width + 3 for width in learner.backbone.widths()])
        widths.append(learner.backbone.widths())
        learner.add_task(classes)
    return learner


@pytest.mark.parametrize("backbone", tiny.BACKBONES)
@pytest.mark.parametrize("method", ["ccgn", "ccgn-episodic"])
def test_the_structure_is_json_and_makes_modules_of_the_same_shapes(method, backbone):
    widths = []
    learner = grown(method, backbone, widths)
    structure = learner.structure()
    assert [entry["classes"] for entry in structure] == list(CLASSES)
    assert [entry["widths"] for entry in structure] == widths
    assert widths[2] != widths[1], "nothing grew: the test would prove nothing"
    other, _ = tiny.world(method, backbone, width=4)
    other.rebuild(json.loads(json.dumps(structure)))
    shapes = {name: value.shape for name, value in learner.state_dict().items()}
    assert {name: value.shape for name, value in other.state_dict().items()} == shapes
    other.load_state_dict(learner.state_dict())
    x = torch.randint(256, (3, 3, 16, 16), dtype=torch.uint8)
    for t in range(3):
        assert torch.equal(other.eval().logits(x, t), learner.eval().logits(x, t))


def test_a_head_reads_the_features_of_its_time_and_earlier_heads_stop_learning():
    learner = grown("ccgn", "simple_cnn", [])
    assert [(head.in_features, head.out_features) for head in learner.heads] == [(4, 3), (4, 2), (7, 4)]
    assert [head.weight.requires_grad for head in learner.heads] == [False, False, True]
