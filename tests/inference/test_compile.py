"""Compiled learners give the same predictions, and the same logits up to rounding, as the learners they come from."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.support import tiny

from lockgate.errors import LockgateError
from lockgate.inference import compile as compiling
from lockgate.inference.compact import LANES
from lockgate.inference.compile import compile_learner


def near(found, wanted):
    """Within 1e-5, of the value where it is larger than one; the same where a class is impossible."""
    assert torch.equal(found.isinf(), wanted.isinf())
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert torch.equal(found.argmax(1), wanted.argmax(1))


def images_of(seen):
    return torch.cat([task.test.x for task in seen])


@pytest.mark.parametrize(
    ("method", "backbone"),
    [
        *(("ccgn-episodic", backbone) for backbone in (*tiny.BACKBONES, "resnet18-deep")),
        ("ccgn", "simple_cnn"),
        ("finetune", "resnet18"),
        ("full-replay", "simple_cnn"),
        ("full-replay", "mlp"),
    ],
)
def test_the_task_given(learnt, method, backbone):
    learner, seen = learnt(method, backbone)
    compiled = compile_learner(learner)
    with torch.no_grad():
        for task in seen:
            near(compiled.predict(images_of(seen), task.id), learner.predict(images_of(seen), task.id))


@pytest.mark.parametrize(
    ("method", "backbone"),
    [*(("ccgn-episodic", backbone) for backbone in tiny.BACKBONES), ("ccgn-generative", "simple_cnn")],
)
@pytest.mark.parametrize("readout", ["ridge", "mlp"])
@pytest.mark.parametrize("batch", [1, 24])
def test_no_task_given_by_both_kinds_of_inference(learnt, method, backbone, batch, readout):
    learner, seen = learnt(method, backbone, readout=readout)
    assert 1 <= compiling.SMALL < 24  # fused, and stream by stream
    compiled = compile_learner(learner)
    for x in torch.split(images_of(seen), batch):
        with torch.no_grad():
            wanted = learner.answers(x)
        found = compiled.answers(x)
        assert found.keys() == wanted.keys() == {"argmax", "joint"}
        for kind, scores in wanted.items():
            near(found[kind], scores)
        near(compiled.predict(x, None), wanted[learner.inference])


@pytest.mark.parametrize("method", ["ccgn", "finetune", "full-replay"])
def test_no_task_given_to_methods_with_one_kind_of_answer(learnt, method):
    learner, seen = learnt(method)
    with torch.no_grad():
        wanted = learner.predict(images_of(seen), None)
    near(compile_learner(learner).predict(images_of(seen), None), wanted)


def test_sub_labels_as_targets_of_the_task_classifier(learnt):
    learner, seen = learnt("ccgn-episodic", targets="class")
    with torch.no_grad():
        wanted = learner.answers(images_of(seen))
    for kind, scores in compile_learner(learner).answers(images_of(seen)).items():
        near(scores, wanted[kind])


def test_streams_of_layers_that_grew(learnt):
    learner, seen = learnt("ccgn-episodic", "resnet18", grow=0.5, open_bias=0.5)
    assert learner.gated["stem"].gate(2).width > learner.gated["stem"].gate(0).width
    compiled = compile_learner(learner)
    with torch.no_grad():
        for task in seen:
            near(compiled.predict(images_of(seen), task.id), learner.predict(images_of(seen), task.id))
        near(compiled.predict(images_of(seen), None), learner.predict(images_of(seen), None))


def test_only_filters_inside_the_seal_are_left(learnt):
    learner, _ = learnt("ccgn", "mlp", open_bias=-0.5)
    compiled = compile_learner(learner)
    cut = 0
    for t, task in enumerate(compiled.tasks):
        for name, layer in task.stream.full.backbone.layers.items():
            sealed = max(1, int(learner.gated[name].gate(t).seal.sum()))
            assert sealed <= layer.width < sealed + LANES
            cut += sealed < learner.gated[name].width
    assert cut, "every filter was sealed: the test would prove nothing"


def test_later_training_does_not_reach_what_was_compiled(learnt):
    learner, seen = copy.deepcopy(learnt("ccgn-episodic"))
    compiled = compile_learner(learner)
    before = compiled.predict(images_of(seen), None)
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter.add_(1.0)
    assert torch.equal(compiled.predict(images_of(seen), None), before)


def test_a_learner_that_learns_more_leaves_what_was_compiled_as_it_is(learnt):
    learner, seen = copy.deepcopy(learnt("ccgn-episodic"))
    compiled = compile_learner(learner)
    before = compiled.predict(images_of(seen), None)
    learner.add_task(2)
    assert torch.equal(compiled.predict(images_of(seen), None), before)


def test_any_number_of_images(learnt, monkeypatch):
    learner, seen = learnt("ccgn-episodic")
    monkeypatch.setattr(compiling, "CHUNK", 7)
    compiled = compile_learner(learner)
    x = images_of(seen)
    with torch.no_grad():
        near(compiled.predict(x, None), learner.predict(x, None))
        near(compiled.predict(x, 1), learner.predict(x, 1))


@pytest.mark.parametrize("method", ["hat", "icarl", "dgm"])
def test_methods_without_a_compiled_form_are_refused_with_a_remedy(learnt, method):
    learner, _ = learnt(method)
    with pytest.raises(LockgateError, match=r"no compiled form.*Ask the learner itself"):
        compile_learner(learner)
