"""Confidence from held-out images: as sure as right, never for certain, the same on any scale."""

from __future__ import annotations

import pytest
import torch

from lockgate.methods.temperature import temperature_of

RNG = torch.Generator().manual_seed(0)
Y = torch.arange(400) % 4


def scores_of(right: float) -> torch.Tensor:
    """The true class is the largest in this share of the images."""
    said = torch.where(torch.rand(len(Y), generator=RNG) < right, Y, (Y + 1) % 4)
    return torch.nn.functional.one_hot(said, 4).float()


@pytest.mark.parametrize("right", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
def test_answers_are_as_sure_as_they_are_right(right, scale):
    scores = scores_of(right) * scale
    sure = (scores / temperature_of(scores, Y)).softmax(1).max(1).values.mean()
    assert float(sure) == pytest.approx(right, abs=0.08)


def test_a_few_images_that_are_all_right_prove_little():
    scores = torch.eye(4)
    few, many = (
        float((scores / temperature_of(scores.repeat(n, 1), torch.arange(4).repeat(n))).softmax(1).max())
        for n in (1, 100)
    )
    assert 0.6 < few < 0.95 < many < 1


def test_nothing_to_learn_from_is_no_error():
    assert temperature_of(torch.empty(0, 3), torch.empty(0, dtype=torch.int64)) == 1
    assert temperature_of(torch.zeros(5, 1), torch.zeros(5, dtype=torch.int64)) == 1
    assert temperature_of(torch.zeros(5, 2), torch.zeros(5, dtype=torch.int64)) > 0
