"""Nothing is forgotten on networks that Lockgate did not write: past logits are bit-equal after every later task."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from tests.support import tiny
from tests.support.networks import HAND_WRITTEN, TRANSFORMERS
from torch import nn

from lockgate.evaluation.exactness import audit, logits, promise
from lockgate.layers.slots import SlotMap, SlotNorm
from lockgate.testing import walk

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed: pip install transformers"
)
NETWORKS = [*HAND_WRITTEN, *(pytest.param(name, marks=needs_transformers) for name in TRANSFORMERS)]


def experiment(network, method="ccgn", **over):
    data = {"synthetic_classes": 6, "synthetic_per_class": 10}
    optim = {"optimiser": "adamw", "lr": 0.01, "weight_decay": 0.1}
    return tiny.experiment(
        method, f"tests.support.networks:{network}", **{"tasks": 3, "epochs": 1, "data": data, "optim": optim, **over}
    )


def changes(experiment, meddle=lambda learner: None):
    """The largest change of any past logit after each task; the last learner; whether promises were kept."""
    first, promises, moved = {}, [], []
    for learner, seen in walk(experiment):
        for task in seen:
            first.setdefault(task.id, logits(learner, task))
        promises.append(promise(learner, seen))
        moved.append(max(float((logits(learner, task) - first[task.id]).abs().max()) for task in seen))
        meddle(learner)
    return moved, learner, audit(learner, seen, promises)


@pytest.mark.parametrize("gates", [False, True], ids=["rows", "gates"])
@pytest.mark.parametrize("network", NETWORKS)
def test_past_logits_are_bit_equal_after_every_later_task(network, gates):
    moved, learner, verdict = changes(experiment(network, model={"gates": gates}))
    assert moved == [0.0, 0.0, 0.0]
    assert verdict.ok, verdict.text()
    x = torch.rand(4, *learner.image_shape)
    with torch.no_grad():
        streams = [learner.backbone(x, task).features for task in range(3)]
    assert not torch.equal(streams[0], streams[1]), "the second task learnt nothing: the test would prove nothing"
    assert all(stream.isfinite().all() for stream in streams)


def share_a_norm(learner):
    """One BatchNorm for all tasks, the classic hole."""
    norms = [slot for slot in learner.backbone.slots if isinstance(slot, SlotNorm)]
    slot = next(slot for slot in norms if isinstance(slot, nn.BatchNorm2d))
    real = slot.add_task

    def add_task():
        real()
        slot.own[-1] = slot.own[0].requires_grad_(True)

    slot.add_task = add_task


def share_rows(learner):
    """One task's filters are the next one's."""
    slot = next(slot for slot in learner.backbone.slots if isinstance(slot, SlotMap))
    real = slot.add_task

    def add_task():
        real()
        slot.own[-1] = slot.own[0].requires_grad_(True)

    slot.add_task = add_task


def train_what_was_given(learner):
    """A given filter moves."""
    with torch.no_grad():
        next(slot for slot in learner.backbone.slots if isinstance(slot, SlotMap))._parameters["weight"].mul_(1.01)


@pytest.mark.parametrize("meddle", [share_a_norm, share_rows, train_what_was_given])
def test_the_check_fails_where_something_is_shared(meddle):
    moved, _, verdict = changes(experiment("Concatenated"), meddle)
    assert max(moved) > 0
    assert not verdict.ok
