"""Streams in two sizes: the small one where it is enough, the whole one for images that need more."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny

from lockgate.evaluation.macs import layer_macs
from lockgate.inference.compile import compile_learner
from lockgate.inference.cut import Cost, make_stream
from lockgate.runs.build import build_learner, build_scenario

WIDTH = 32


@pytest.fixture
def seldom():
    """A learner whose first layer opens one filter for dark images and all for bright ones; of which every tenth is."""
    experiment = tiny.experiment("ccgn-episodic", model={"width": WIDTH})
    learner = build_learner(experiment, build_scenario(experiment).image_shape)
    torch.manual_seed(0)
    images = torch.randint(0, 60, (40, *learner.image_shape), dtype=torch.uint8)
    images[::10] += 190
    with torch.no_grad():
        learner.input.fit([images])
        for task in range(3):
            learner.add_task(2)
            for layer in learner.gated.values():
                layer.gate(task).excite.weight.zero_()
                layer.gate(task).excite.bias.fill_(1.0)
            gate = learner.gated["conv1"].gate(task)
            gate.squeeze.weight.fill_(1.0)
            gate.squeeze.bias.zero_()
            gate.excite.weight.fill_(1.0)
            gate.excite.bias.fill_(-3.0)  # hidden units are the brightness, in deviations
            gate.excite.bias[task] = 1.0
    return learner.eval(), images


def test_dark_images_take_the_narrow_stream_and_bright_ones_the_whole(seldom):
    learner, images = seldom
    stream = make_stream(learner, 0, torch.ones(3), images, Cost(learner, images[:1]))
    assert stream.narrow is not None
    opened = learner.backbone(learner.input(images), 0).gates[0]
    assert opened.sum(1).tolist() == [WIDTH if i % 10 == 0 else 1.0 for i in range(40)]
    seen = {"narrow": 0, "full": 0}
    for name in seen:
        network = getattr(stream, name)
        network.register_forward_pre_hook(lambda _, given, name=name: seen.update({name: len(given[0])}))
    with torch.no_grad():
        stream(learner.input(images))
    assert seen == {"narrow": 40, "full": 4}


@pytest.mark.parametrize(("bright", "run"), [(1, [1]), (5, [8]), (32, [32]), (71, [32, 32, 8])])
def test_the_whole_stream_is_run_on_few_numbers_of_images(seldom, bright, run):
    """For every new number torch makes kernels: with as many bright images in each batch as there happen to be, that
    took a third of the time of ten thousand images of five tasks."""
    learner, images = seldom
    stream = make_stream(learner, 0, torch.ones(3), images, Cost(learner, images[:1]))
    x = learner.input(images[::10][torch.arange(bright) % 4])
    dark = learner.input(images[1:4])
    seen = []
    stream.full.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    with torch.no_grad():
        found, _ = stream(torch.cat([dark, x]))
        assert seen == run
        assert torch.equal(found[3:], found[3:7].repeat(18, 1)[:bright])
        torch.testing.assert_close(found[3:], stream.full(x)[0])


@pytest.mark.parametrize("bright", [False, True])
@pytest.mark.parametrize("read", [False, True])
def test_answers_are_those_of_the_learner(seldom, read, bright):
    learner, images = seldom
    if read:
        with torch.no_grad():
            inputs = learner.inputs_of(learner.streams(images))[2]
        learner.readout.fit(inputs, torch.arange(40) % 6, torch.arange(40))
    assert learner.readout.fitted == read
    compiled = compile_learner(learner, images)
    assert all(task.stream.narrow is not None for task in compiled.tasks)
    x = images if bright else images[torch.arange(len(images)) % 10 > 0]
    with torch.no_grad():
        for task in (0, 1, 2, None):
            torch.testing.assert_close(compiled.predict(x, task), learner.predict(x, task), rtol=1e-5, atol=1e-5)


def test_nothing_is_narrowed_where_images_need_most_filters(seldom):
    learner, images = seldom
    assert make_stream(learner, 0, torch.ones(3), images[::10], Cost(learner, images[:1])).narrow is None


def test_a_pair_of_channels_costs_the_same_in_every_stream(seldom):
    learner, images = seldom
    cost = Cost(learner, images[:1])
    every = [torch.arange(layer.width) for layer in learner.gated.values()]
    for task in range(3):
        counted = sum(count.dense for count in layer_macs(learner, images[:1], task))
        assert cost(every) == pytest.approx(counted)
