"""What reads the image is computed once for all streams, and each takes its own filters of it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from lockgate.inference.compile import compile_learner

IMAGES = 70  # more than are read at a time, and not a multiple of it


@pytest.fixture
def compiled(learnt):
    learner, tasks = learnt("ccgn-episodic")
    images = torch.cat([task.test.x for task in tasks])[torch.arange(IMAGES) % 12]
    return learner, compile_learner(learner), images


def test_streams_read_the_image_together_and_answer_as_the_learner(compiled):
    learner, made, images = compiled
    common = made.together.common
    assert common is not None
    with torch.no_grad():
        found, wanted = made.predict(images, None), learner.predict(images, None)
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    assert (found.argmax(1) == wanted.argmax(1)).all()


def test_each_filter_is_computed_once_an_image(compiled, monkeypatch):
    learner, made, images = compiled
    convolve, read = F.conv2d, []

    def counted(x, weight, *rest):
        if x.shape[1] == learner.image_shape[0]:
            read.append(len(x) * len(weight))
        return convolve(x, weight, *rest)

    made.together.companion = None  # it reads the image too
    monkeypatch.setattr("lockgate.inference.compact.F.conv2d", counted)
    made.predict(images, None)
    kept = torch.stack([learner.gated["conv1"].gate(task).seal for task in range(3)]).any(0).sum()
    assert sum(read) == IMAGES * (-(-int(kept) // 8) * 8)


def test_other_images_are_none_of_its_business(compiled):
    learner, made, images = compiled
    with torch.no_grad():
        for task in range(3):
            torch.testing.assert_close(made.predict(images, task), learner.predict(images, task), atol=1e-4, rtol=1e-4)
    assert made.together.common.taken(images.float(), torch.arange(1), F.relu) is None


def test_norms_of_a_tasks_own_keep_streams_apart(learnt):
    learner, _ = learnt("ccgn-episodic", "resnet18")
    assert compile_learner(learner).together.common is None
