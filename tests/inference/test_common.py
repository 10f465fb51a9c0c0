"""What reads the image is computed once for all streams, and each takes its own filters of it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from lockgate.inference import common
from lockgate.inference.common import in_parts
from lockgate.inference.compile import compile_learner

IMAGES = 70  # not a multiple of what is read at a time


@pytest.fixture
def compiled(learnt, monkeypatch):
    learner, tasks = learnt("ccgn-episodic")
    filters, (_, height, width) = learner.gated["conv1"].width, learner.image_shape
    monkeypatch.setattr("lockgate.inference.common.AT_ONCE", 20 * 4 * filters * height * width)
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


def test_as_many_images_at_a_time_as_their_maps_allow(compiled):
    _, made, images = compiled
    filters, parts = made.together.common.filters, []
    with torch.no_grad():
        whole = F.relu(filters.linear_map(images.float()))
        parts = list(in_parts(filters, images.float(), F.relu))
    assert {len(part) for part in parts[:-1]} == {1 << (len(parts[0]).bit_length() - 1)}, "a power of two"
    assert all(part.nbytes <= common.AT_ONCE for part in parts)
    assert len(parts[0]) * 2 * parts[0][0].nbytes > common.AT_ONCE, "no fewer than there is room for"
    torch.testing.assert_close(torch.cat(parts), whole)


def test_other_images_are_none_of_its_business(compiled):
    learner, made, images = compiled
    with torch.no_grad():
        for task in range(3):
            torch.testing.assert_close(made.predict(images, task), learner.predict(images, task), atol=1e-4, rtol=1e-4)
    common = made.together.common
    (reader, _), *_ = common.readers
    x = images.float()
    for part in common.passes(x):
        assert common.reads(reader, part)
        assert common.taken(reader, x[:1], F.relu) is None
        assert not common.reads(reader, x[:1])
    assert common.taken(reader, x, F.relu) is None, "it is over"


@pytest.mark.parametrize("mostly", [-1.0, 1.0])
def test_a_stream_that_most_images_want_whole_is_run_whole(learnt, monkeypatch, mostly):
    """Every stream lacks filters here; ``mostly`` decides whether images are run through all of it at once."""
    learner, tasks = learnt("ccgn-episodic")
    images = torch.cat([task.test.x for task in tasks])[torch.arange(IMAGES) % 12]
    monkeypatch.setattr("lockgate.inference.cut.PAYS", 100.0)  # two sizes of each stream, whatever they cost
    monkeypatch.setattr("lockgate.inference.cut.RATES", (0.6,))
    monkeypatch.setattr("lockgate.inference.union.PAYS", 100.0)
    monkeypatch.setattr("lockgate.inference.common.FEWER", 32)
    monkeypatch.setattr("lockgate.inference.common.MOSTLY", mostly)
    made = compile_learner(learner, images[:12])
    streams, seen = made.together.streams, {"narrow": [], "full": []}
    two_sizes = [
        stream for stream in streams if stream.narrow is not None and stream.narrow.backbone.conv1.own.gate.missing
    ]
    assert two_sizes
    for name, found in seen.items():
        getattr(two_sizes[0], name).register_forward_pre_hook(lambda _, x, found=found: found.append(len(x[0])))
    with torch.no_grad():
        found, wanted = made.predict(images, None), learner.predict(images, None)
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    if mostly < 0:
        assert seen == {"narrow": [], "full": [32, 32, 6]}, "in fewer images at a time, and only once"
    else:
        assert seen["narrow"] == [IMAGES]


def test_norms_of_a_tasks_own_keep_streams_apart(learnt):
    learner, _ = learnt("ccgn-episodic", "resnet18")
    assert compile_learner(learner).together.common is None
