"""Filters that no image of a batch opens are not computed, and no answer changes by more than rounding."""

from __future__ import annotations

import pytest
import torch

from lockgate.inference import asleep
from lockgate.inference.asleep import awake, held, holding
from lockgate.inference.check import compare
from lockgate.inference.compile import compile_learner


def one_by_one(opened: torch.Tensor) -> list[int] | None:
    """The same by loops: what is wanted, filled up by the first that are not."""
    images, width = opened.shape
    wanted = [c for c in range(width) if any(opened[i, c] for i in range(images))]
    others = [c for c in range(width) if c not in wanted]
    while len(wanted) % asleep.STEP or not wanted:
        wanted.append(others.pop(0))
    return None if len(wanted) > asleep.PAYS * width else sorted(wanted)


@pytest.mark.parametrize("share", [0.0, 0.002, 0.01, 0.03, 0.5])
def test_what_some_image_opens_is_computed(share: float) -> None:
    opened = torch.rand(40, 24, generator=torch.Generator().manual_seed(1)) < share
    found = awake(opened)
    assert (None if found is None else found.tolist()) == one_by_one(opened)


def test_of_few_images_everything_is_computed() -> None:
    assert awake(torch.zeros(asleep.FEWEST - 1, 24, dtype=torch.bool)) is None


def test_a_map_says_which_channels_it_has() -> None:
    x, places = torch.rand(3, 2, 4), torch.tensor([1, 4])
    assert held(x) is None
    assert held(holding(x, places)) is places


@pytest.mark.parametrize("backbone", ["simple_cnn", "mlp", "resnet18"])
@pytest.mark.parametrize("inference", ["argmax", "joint"])
def test_answers_are_the_learners(learnt, monkeypatch, backbone, inference):
    learner, tasks = learnt("ccgn-episodic", backbone, inference=inference)
    left_out = []

    def noted(opened):
        found = awake(opened)
        left_out.append(0 if found is None else opened.shape[1] - len(found))
        return found

    monkeypatch.setattr("lockgate.inference.compact.awake", noted)
    compiled = compile_learner(learner)
    some = torch.cat([task.test.x for task in tasks])
    for images in (some.repeat(12, 1, 1, 1), some[:1].repeat(40, 1, 1, 1)):  # alike, they want few filters
        for task in (None, 0, 2):
            assert compare(learner, lambda x, task=task: compiled.predict(x, task), images, task).ok
    assert any(left_out), "else nothing was tried"
    alone = [compiled.predict(image[None], None) for image in some]
    torch.testing.assert_close(compiled.predict(some.repeat(12, 1, 1, 1), None)[: len(some)], torch.cat(alone))
