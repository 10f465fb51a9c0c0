"""The companion: learns by two cross-entropies, answers beside the streams, and has no say when the task is given."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from tests.support import tiny

from lockgate.app.export import write_onnx, write_torch
from lockgate.backbones.simple_cnn import SimpleCNN
from lockgate.config import ModelConfig
from lockgate.inference.compile import compile_learner
from lockgate.layers.plain import PlainConv2d
from lockgate.methods.base import Method
from lockgate.methods.ccgn.companion import Companion, among_all, beside
from lockgate.runs.build import build_learner, build_scenario
from lockgate.testing import walk
from lockgate.types import Batch


def after_two(**options):
    """A learner that has learnt two tasks, and its scenario."""
    torch.manual_seed(0)
    experiment = tiny.experiment("ccgn-episodic", options=options)
    walker = walk(experiment)
    next(walker)
    return next(walker)[0].eval(), build_scenario(experiment)


@pytest.fixture(scope="module")
def learnt():
    return after_two()


def test_what_it_says_is_a_factor_of_the_answer_without_the_task(learnt):
    learner, scenario = learnt
    x = scenario.tasks[0].test.x
    with torch.no_grad():
        _, logits, inputs = learner.inputs_of(learner.streams(x))
        sizes = [part.shape[1] for part in logits]
        streams = learner.readout(inputs).exp()
        companion = learner.companion(learner.input(x)).softmax(1)
        product = streams * companion
        answers = learner.answers(x)
    torch.testing.assert_close(answers["joint"].exp(), product / product.sum(1, keepdim=True), rtol=1e-4, atol=1e-6)
    task = torch.stack([part.sum(1) for part in torch.split(streams * companion, sizes, dim=1)], dim=1).argmax(1)
    chosen = torch.cat([torch.full((size,), t) for t, size in enumerate(sizes)])[answers["argmax"].argmax(1)]
    assert torch.equal(chosen, task)


@pytest.fixture(scope="module")
def half_sure(learnt):
    """The learner, sure of every second of some images, and which those are."""
    learner, x = copy.deepcopy(learnt[0]), torch.cat([task.test.x for task in learnt[1].tasks])
    with torch.no_grad():
        told = learner.readout(learner.inputs_of(learner.streams(x))[2]).amax(1)
        learner.readout.bar.copy_(told.median())
    return learner, x, told > learner.readout.bar


def test_of_images_that_the_read_out_is_sure_of_it_is_not_asked(half_sure, learnt):
    learner, x, sure = half_sure
    assert 0 < sure.sum() < len(x)
    seen = []
    with torch.no_grad():
        handle = learner.companion.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
        found = learner.answers(x)
        handle.remove()
        every, none = learnt[0].answers(x), copy.deepcopy(learnt[0])
        none.companion = None
        streams = none.answers(x)
    assert seen == [int((~sure).sum())]
    for kind in ("joint", "argmax"):
        torch.testing.assert_close(found[kind], torch.where(sure[:, None], streams[kind], every[kind]))
    assert not torch.allclose(streams["joint"], every["joint"])


def test_so_in_the_compiled_form_and_in_exported_files(half_sure, tmp_path):
    learner, x, sure = half_sure
    both = torch.stack([x[sure][0], x[~sure][0]])
    compiled = compile_learner(learner)
    for part in (x, x[sure], x[~sure], both):  # one by one below: fused, and as many as are together
        wanted = learner.predict(part, None)
        torch.testing.assert_close(compiled.predict(part, None), wanted, rtol=1e-4, atol=1e-4)
    for write, name in ((write_onnx, "all.onnx"), (write_torch, "all.pt2")):
        answer = write(compiled.together, x[:1].repeat(2, 1, 1, 1), {}, tmp_path / name)
        for part in (both, x[sure][:1], x[~sure][:1]):
            torch.testing.assert_close(answer(part), learner.predict(part, None), rtol=1e-4, atol=1e-4)


def test_its_cost_counts_as_often_as_it_was_asked(learnt):
    learner = copy.deepcopy(learnt[0])
    learner.readout.asks = torch.tensor([1.0, 0.25])
    true, paper = learner.companion.macs(learner.image_shape)
    without = copy.deepcopy(learner)
    without.companion = None
    first, second = zip(*learner.finder_macs, strict=True), zip(*without.finder_macs, strict=True)
    more = [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(first, second, strict=True)]
    assert more == [[0, round(0.25 * true)], [0, round(0.25 * paper)]]


def test_nothing_that_is_promised_depends_on_it(learnt):
    learner, scenario = copy.deepcopy(learnt[0]), learnt[1]
    x = scenario.tasks[0].test.x
    with torch.no_grad():
        given = [learner.predict(x, t) for t in range(2)]
        streams, without = learner.streams(x), learner.predict(x, None)
        for value in learner.companion.parameters():
            value.add_(1.0)
        assert all(torch.equal(before, learner.predict(x, t)) for t, before in enumerate(given))
        assert all(torch.equal(a, b) for a, b in zip(streams, learner.streams(x), strict=True))
        assert not torch.equal(without, learner.predict(x, None)), "the control: without the task it has a say"
    promised = {name for t in range(2) for name in learner.promised(t)}
    assert not any("companion" in name for name in promised)


def test_the_first_stream_learns_the_same_bits_with_it_and_without_it():
    """Its gradient, its first weights and the images it is shown have no say in how a stream learns, but for where a
    later one begins."""
    states = []
    for options in ({}, {"companion": 0.0}):
        torch.manual_seed(0)
        states.append(next(walk(tiny.experiment("ccgn-episodic", options=options)))[0].state_dict())
    assert {name for name in states[0] if not name.startswith("companion.")} == set(states[1])
    assert not [name for name, value in states[1].items() if not torch.equal(value, states[0][name])]


def test_it_goes_on_learning_while_past_streams_stand_still():
    experiment = tiny.experiment("ccgn-episodic")
    walker, before = walk(experiment), None
    for learner, *_ in walker:
        now = copy.deepcopy(learner.companion.backbone.state_dict())
        assert before is None or any(not torch.equal(now[name], before[name]) for name in now)
        assert not any(p.requires_grad for p in learner.companion.parameters()), "it stands still between tasks"
        before = now


def test_its_loss_is_of_new_images_among_their_own_classes_and_of_rehearsed_ones_among_all(learnt):
    learner, scenario = copy.deepcopy(learnt[0]).train(), learnt[1]
    task = scenario.tasks[1]
    learner.rehearsal.begin_task(task.train, seed=3)
    learner.epoch, learner.steps = 0, 2
    batch = Batch(*task.train.batch(torch.arange(6)))
    torch.manual_seed(5)
    found = learner.companion_loss(learner.companion, batch)
    torch.manual_seed(5)
    pool = learner.pool(learner.options.rehearsal or 6)
    rows = pool.rows(6, at_random=True)
    assert set(pool.task[rows].tolist()) == {0, 1}, "tasks in turn, the newest too"
    new = learner.companion(learner.input(batch.x))[:, 2:]
    rehearsed = learner.companion(learner.input(pool.x[rows]))
    wanted = F.cross_entropy(new, batch.y) + F.cross_entropy(rehearsed, pool.y[rows] + 2 * pool.task[rows])
    torch.testing.assert_close(found, wanted)


def test_held_out_images_judge_the_streams_alone(learnt):
    learner, scenario = copy.deepcopy(learnt[0]), learnt[1]
    learner.rehearsal.begin_task(scenario.tasks[1].train, seed=3)
    learner.epoch, learner.steps, learner.epochs = 0, 2, 1
    assert "companion" not in learner.eval().loss(Batch(*scenario.tasks[1].val.batch(torch.arange(4))))


def test_its_cost_is_counted_by_hand():
    layers = Method.layer_factory("he", None)
    companion = Companion(SimpleCNN((1, 28, 28), layers, ModelConfig(width=10)))
    assert companion.macs((1, 28, 28)) == (
        9 * 10 * 28**2 + 9 * 100 * 14**2 + 9 * 100 * 7**2,
        9 * 10 * (28**2 + 14**2 + 7**2),
    )


def test_it_is_a_share_as_wide_and_has_no_gates(learnt):
    companion = learnt[0].companion
    width = learnt[0].first_widths[0]
    assert companion.backbone.widths() == [round(0.5 * width)] * 3
    assert all(isinstance(layer, PlainConv2d) for layer in companion.backbone.layers.values())


def test_without_the_option_there_is_none_and_one_task_needs_none(learnt):
    experiment = tiny.experiment("ccgn-episodic", options={"companion": 0.0})
    assert build_learner(experiment, (3, 8, 8)).companion is None
    walker = walk(tiny.experiment("ccgn-episodic"))
    learner = next(walker)[0].eval()
    x = build_scenario(tiny.experiment("ccgn-episodic")).tasks[0].test.x
    with torch.no_grad():
        torch.testing.assert_close(learner.predict(x, None), learner.predict(x, 0).log_softmax(1))


def test_beside_multiplies():
    evidence, logits = torch.tensor([[0.7, 0.2, 0.1]]).log(), torch.tensor([[0.1, 0.8, 0.1]]).log() + 3
    torch.testing.assert_close(beside(evidence, logits).exp(), torch.tensor([[0.07, 0.16, 0.01]]) / 0.24)


def test_where_nothing_is_remembered_it_learns_each_task_alone():
    experiment = tiny.experiment("ccgn")
    walker = walk(experiment)
    next(walker)
    learner, scenario = next(walker)[0], build_scenario(experiment)
    batch = Batch(*scenario.tasks[1].train.batch(torch.arange(6)))
    wanted = F.cross_entropy(learner.companion(learner.input(batch.x))[:, 2:], batch.y)
    torch.testing.assert_close(learner.train().companion_loss(learner.companion, batch), wanted)


def test_of_generated_images_past_ones_have_the_names_their_heads_give_and_new_ones_their_task():
    """No real image is among them, not of the newest task either."""
    experiment = tiny.experiment("ccgn-generative")
    walker = walk(experiment)
    next(walker)
    learner, scenario = next(walker)[0].train(), build_scenario(experiment)
    task = scenario.tasks[1]
    learner.rehearsal.begin_task(task.train, seed=3)
    learner.memory.generators.append(copy.deepcopy(learner.memory.generators[0]))
    learner.epoch, learner.steps = 0, 2
    batch = Batch(*task.train.batch(torch.arange(6)))
    torch.manual_seed(5)
    found = learner.companion_loss(learner.companion, batch)
    torch.manual_seed(5)
    pool = learner.pool(learner.options.rehearsal or 6)
    rows = pool.rows(6, at_random=True)
    assert not any((image == real).all() for image in pool.x for real in task.train.x)
    wanted = F.cross_entropy(learner.companion(learner.input(batch.x))[:, 2:], batch.y)
    for row in rows.tolist():
        x, of = pool.x[row : row + 1], int(pool.task[row])
        p = learner.companion(learner.input(x)).softmax(1)[0]
        named = learner.eval().logits(x, 0).argmax() if of == 0 else slice(2, 4)
        wanted = wanted - p[named].sum().log() / len(rows)
    assert set(pool.task[rows].tolist()) == {0, 1}
    torch.testing.assert_close(found, wanted)


def test_among_all_by_hand():
    p = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]])
    found = among_all(p.log(), torch.tensor([1, -1, 0]), torch.tensor([0, 1, 2]), [2, 1, 1])
    expected = -(torch.tensor([0.2, 0.3, 0.1]).log().mean())
    torch.testing.assert_close(found, expected)
