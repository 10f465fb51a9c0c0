"""Nothing is forgotten: logits of every past task are bit-equal after every later task."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny

from lockgate.evaluation.exactness import audit, logits, promise
from lockgate.testing import walk

NETWORKS = ("simple_cnn", "resnet18-deep", "mlp")
FIVE = {"tasks": 5, "epochs": 3, "data": {"synthetic_classes": 10, "synthetic_per_class": 12}}


def largest_change(experiment, on_all_images=False):
    """The largest change of any past logit, and whether filters were left for later tasks to train."""
    first: dict[int, torch.Tensor] = {}
    change, trained_later = 0.0, False
    for learner, seen in walk(experiment):
        locked = [layer.locked for layer in learner.gated.values()]
        trained_later |= len(seen) < 5 and any(0 < int(mask.sum()) < len(mask) for mask in locked)
        for task in seen:
            if on_all_images:
                images = torch.cat([t.test.x for t in seen[:1]] + [t.train.x for t in walk_tasks(experiment)])
                with torch.no_grad():
                    now = learner.eval().predict(images, task.id)
            else:
                now = logits(learner, task)
            before = first.setdefault(task.id, now)
            if not torch.equal(before, now):
                change = max(change, float((before - now).abs().max()))
    return change, trained_later


def walk_tasks(experiment):
    from lockgate.runs.build import build_scenario

    return build_scenario(experiment).tasks


@pytest.mark.parametrize("method", tiny.GATED)
@pytest.mark.parametrize("backbone", NETWORKS)
@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_past_logits_are_bit_equal_after_every_later_task(method, backbone, optimiser):
    optim = {"optimiser": optimiser, "lr": 0.05 if optimiser == "sgd" else 3e-3}
    change, trained_later = largest_change(
        tiny.experiment(method, backbone, optim=optim, options={"open_bias": 0.0}, **FIVE)
    )
    assert trained_later, "all filters were locked by the first task, or none: the test would prove nothing"
    assert change == 0.0


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18"])
def test_past_logits_are_bit_equal_where_tasks_anneal(backbone):
    change, trained_later = largest_change(tiny.experiment("ccgn-episodic", backbone, options=tiny.ANNEALING, **FIVE))
    assert trained_later, "all filters were locked by the first task, or none: the test would prove nothing"
    assert change == 0.0


@pytest.mark.parametrize("method", ["ccgn", "ccgn-episodic"])
@pytest.mark.parametrize("backbone", NETWORKS)
def test_past_logits_and_streams_are_bit_equal_when_layers_grow(method, backbone):
    experiment = tiny.experiment(method, backbone, options={"grow": 0.5, "open_bias": 0.5}, **FIVE)
    widths = []
    promises = []
    first: dict[int, torch.Tensor] = {}
    for learner, seen in walk(experiment):
        widths.append(learner.backbone.widths())
        promises.append(promise(learner, seen))
        assert audit(learner, seen, promises).ok
        for task in seen:
            now = logits(learner, task)
            assert torch.equal(first.setdefault(task.id, now), now)
    assert widths[-1] > widths[0], "no layer grew: the test would prove nothing"


def test_streams_are_bit_equal_on_images_of_other_tasks_with_the_seal_and_move_without(record_property):
    images = {"open_bias": 0.0, "gate_lr": 5.0}
    sealed, _ = largest_change(tiny.experiment("ccgn", options=images, **FIVE), on_all_images=True)
    as_printed, _ = largest_change(
        tiny.experiment("ccgn", options={**images, "seal": False}, **FIVE), on_all_images=True
    )
    record_property("largest change of a past logit without the seal", as_printed)
    print(f"largest change of a past logit: with the seal {sealed}, without {as_printed:.3g}")
    assert sealed == 0.0
    assert as_printed > 0.0
