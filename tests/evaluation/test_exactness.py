"""Digests see every bit; an audit names what broke."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.evaluation.exactness import audit, digest, promise
from lockgate.evaluation.gates import firing_probabilities


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 11), st.integers(0, 31), st.integers(0, 999))
def test_one_flipped_bit_changes_the_digest(position, bit, seed):
    values = np.random.default_rng(seed).standard_normal(12).astype(np.float32)
    flipped = values.copy()
    flipped.view(np.uint32)[position] ^= np.uint32(1) << np.uint32(bit)
    before, same, after = (torch.from_numpy(v.copy()) for v in (values, values, flipped))
    assert digest(before) == digest(same)
    assert digest(before) != digest(after)


def test_the_digest_tells_positive_from_negative_zero():
    assert digest(torch.tensor([0.0])) != digest(torch.tensor([-0.0]))


def test_the_digest_depends_on_type_and_shape():
    zeros = [
        torch.zeros(4),
        torch.zeros(4, dtype=torch.int32),  # the same bytes
        torch.zeros(2, dtype=torch.float64),  # the same bytes
        torch.zeros(2, 2),
        torch.zeros(1, 4),
        torch.zeros(4, 1),
        torch.zeros(16, dtype=torch.bool),
        torch.zeros(()),
        torch.zeros(0),
    ]
    assert len({digest(z) for z in zeros}) == len(zeros)


def test_the_digest_does_not_depend_on_the_memory_layout():
    x = torch.randn(2, 3, 4, 5)
    assert digest(x) == digest(x.to(memory_format=torch.channels_last)) == digest(x.requires_grad_())
    assert digest(x.mT.contiguous().mT) == digest(x)


def promises_of(learner, scenario):
    return [promise(learner, scenario.tasks[: task.id + 1]) for task in scenario.tasks]


def test_an_untouched_learner_passes(learnt):
    learner, scenario = learnt()
    made = promises_of(learner, scenario)
    verdict = audit(learner, scenario.tasks, made)
    assert verdict.ok
    assert verdict.tensors == sum(len(m["tensors"]) for m in made)
    assert verdict.logits == 2
    assert verdict.text().startswith("audit passed")
    assert verdict.to_dict() == {"ok": True, "tensors": verdict.tensors, "logits": 2, "streams": 0, "broken": []}


@pytest.mark.parametrize("layer", ["conv1", "conv2", "conv3"])
@pytest.mark.parametrize("key", ["weight", "bias"])
@pytest.mark.parametrize("task", [0, 1])
def test_one_ulp_on_a_locked_filter_is_found_and_named(learnt, layer, key, task):
    learner, scenario = learnt(width=16)
    made = promises_of(learner, scenario)
    part = learner.gated[layer]
    k = torch.nonzero(part.owner == task).flatten()[-1]
    with torch.no_grad():
        row = getattr(part, key)[k].view(-1)
        row[0] = torch.nextafter(row[0], torch.tensor(math.inf))
    verdict = audit(learner, scenario.tasks, made)
    assert not verdict.ok
    assert verdict.broken[0] == f"task {task}: tensor {layer}.{key}"
    assert f"task {task}: tensor {layer}.{key} has changed" in verdict.text()
    assert [b for b in verdict.broken if "tensor" in b] == [verdict.broken[0]]


def test_a_change_of_free_filters_breaks_no_promise(learnt):
    learner, scenario = learnt(width=16)
    made = promises_of(learner, scenario)
    with torch.no_grad():
        for layer in learner.gated.values():
            assert not layer.locked.all()
            layer.weight[~layer.locked] += 1000.0
            layer.bias[~layer.locked] -= 1000.0
    assert audit(learner, scenario.tasks, made).ok


def test_a_change_that_only_the_logits_show_is_found(learnt):
    learner, scenario = learnt()
    made = promises_of(learner, scenario)
    learner.input.mean += 0.1
    verdict = audit(learner, scenario.tasks, made)
    sizes = [len(task.test) for task in scenario.tasks]
    assert verdict.broken == tuple(f"task {t}: logits on its {n} test images" for t, n in enumerate(sizes))
    assert "task 0: logits" in verdict.text()
    assert "(and 1 more)" in verdict.text()


def test_the_first_offender_is_the_earliest_tasks(learnt):
    learner, scenario = learnt()
    made = promises_of(learner, scenario)
    with torch.no_grad():
        learner.heads[1].bias += 1
        learner.backbone.conv2.gate(0).norm.running_mean += 1
    broken = audit(learner, scenario.tasks, made).broken
    assert broken[0] == "task 0: tensor backbone.conv2.gates.0.norm.running_mean"
    assert "task 1: tensor heads.1.bias" in broken


def test_a_filter_that_changed_its_owner_is_found(learnt):
    learner, scenario = learnt(width=16)
    made = promises_of(learner, scenario)
    owner = learner.backbone.conv1.owner
    owner[torch.nonzero(owner == 0).flatten()[0]] = -1
    assert audit(learner, scenario.tasks, made).broken[0] == "task 0: tensor conv1.bias"


def test_a_method_that_keeps_nothing_promises_nothing(learnt):
    learner, scenario = learnt("finetune")
    assert promise(learner, scenario.tasks[:1]) is None


def test_firing_probabilities_are_rows_by_layer_and_task(learnt):
    learner, scenario = learnt()
    table = firing_probabilities(learner, scenario.tasks)
    assert list(table) == ["conv1", "conv2", "conv3"]
    for t, task in enumerate(scenario.tasks):
        with torch.no_grad():
            gates = learner.backbone(learner.input(task.val.x), t).gates
        for rows, gate in zip(table.values(), gates, strict=True):
            assert rows[t] == pytest.approx([sum(column) / len(column) for column in gate.T.tolist()])


def test_an_audit_of_some_tasks_checks_all_tensors_and_the_answers_of_those(learnt):
    learner, scenario = learnt("ccgn-episodic")
    made = promises_of(learner, scenario)
    everything = audit(learner, scenario.tasks, made)
    some = audit(learner, scenario.tasks, made, tested={0})
    assert some.ok
    assert (some.tensors, some.logits) == (everything.tensors, 1)
    assert some.streams == sum(pair.endswith("on 0") for entry in made for pair in entry["streams"])
    false = [{**entry, "logits": "0" * 64, "streams": dict.fromkeys(entry["streams"], "0" * 64)} for entry in made]
    on_its_images = [f"task {t}: stream into the task classifier, on test images of task 0" for t in range(2)]
    logits = f"task 0: logits on its {len(scenario.tasks[0].test)} test images"
    assert set(audit(learner, scenario.tasks, false, tested={0}).broken) == {logits, *on_its_images}


def test_streams_are_promised_once_for_each_pair_of_stream_and_images(learnt):
    learner, scenario = learnt("ccgn-episodic")
    pairs = [pair for entry in promises_of(learner, scenario) for pair in entry["streams"]]
    tasks = range(len(scenario.tasks))
    assert sorted(pairs) == sorted(f"{stream} on {images}" for stream in tasks for images in tasks)
