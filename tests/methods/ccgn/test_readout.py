"""The read-out: ridge regression on all gated layers, solved for exactly; what it reads never changes."""

from __future__ import annotations

import copy
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from tests.support import tiny

from lockgate.inference.compile import compile_learner
from lockgate.methods.ccgn import readout as reading
from lockgate.methods.ccgn import ridge as closed_form
from lockgate.methods.ccgn.readout import Choice, ReadOut, grid_of, pooled, read
from lockgate.methods.ccgn.ridge import Ridge, most_telling
from lockgate.runs.loading import load
from lockgate.runs.run import run


def problem(images: int, inputs: int, classes: int = 3):
    """Inputs that tell classes of unequal size apart, more or less."""
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(classes, (images,), generator=rng).clamp(max=classes - 1)
    y[: images // 2] = 0
    x = torch.randn(images, inputs, generator=rng) + 3 * torch.randn(classes, inputs, generator=rng)[y]
    x[:, 0] = 7.0  # an input that stands still
    return x, y


def naive(x, y, alpha: float, classes: int = 3):
    """Weights and biases by the normal equations of the definition, in float64, image by image."""
    share = torch.tensor([1 / (classes * int((y == label).sum())) for label in y], dtype=torch.float64)
    x = x.double()
    mean = (share[:, None] * x).sum(0)
    scale = (share[:, None] * (x - mean) ** 2).sum(0).sqrt()
    z = torch.where(scale > 1e-4, (x - mean) / scale.clamp(min=1e-4), 0.0)
    moving = int((scale[:-classes] > 1e-4).sum())
    z[:, -classes:] *= (moving / classes) ** 0.5  # logits weigh as much as all the others together
    target = F.one_hot(y, classes).double() - 1 / classes
    left = sum(s * torch.outer(row, row) for s, row in zip(share, z, strict=True))
    right = sum(s * torch.outer(row, t) for s, row, t in zip(share, z, target, strict=True))
    weight = torch.linalg.solve(left + alpha * torch.eye(len(left), dtype=torch.float64), right)
    return z @ weight + 1 / classes


@pytest.mark.parametrize(("images", "inputs"), [(40, 9), (20, 60)])
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_the_solution_is_that_of_the_normal_equations(images, inputs, alpha):
    x, y = problem(images, inputs)
    ridge = Ridge(x, y, 3)
    wanted = naive(x, y, alpha).float()
    weight, bias = ridge.weights(alpha)
    assert not weight[:, 0].any()
    torch.testing.assert_close(x @ weight.T + bias, wanted, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(ridge.scores(ridge.products(x), alpha).float(), wanted, rtol=1e-3, atol=1e-3)


def test_the_most_telling_inputs_are_those_of_the_largest_weights_on_standardised_inputs(monkeypatch):
    x, y = problem(60, 12)
    assert most_telling(x, y, 3).tolist() == list(range(9))
    share = torch.tensor([1 / (3 * int((y == label).sum())) for label in y], dtype=torch.float64)
    z = x.double() - (share[:, None] * x).sum(0)
    deviation = (share[:, None] * z**2).sum(0).sqrt()
    z = torch.where(deviation > 1e-4, z / deviation.clamp(min=1e-4), 0.0)
    z[:, -3:] *= (8 / 3) ** 0.5  # one of nine stands still
    target = F.one_hot(y, 3).double() - 1 / 3
    left = z.T @ (share[:, None] * z) + closed_form.TELLING * torch.eye(12, dtype=torch.float64)
    norms = torch.linalg.solve(left, z.T @ (share[:, None] * target)).norm(dim=1)[:9].tolist()
    for most in (1, 4, 7):
        monkeypatch.setattr(closed_form, "MOST_INPUTS", most)
        assert most_telling(x, y, 3).tolist() == sorted(sorted(range(9), key=lambda i: -norms[i])[:most])


def test_inputs_that_stand_still_may_go_without_a_change(monkeypatch):
    x, y = problem(40, 30)
    x[:, 1:9] = 2.0
    readouts = [ReadOut(), ReadOut()]
    for readout, most in zip(readouts, (30, 20), strict=True):
        monkeypatch.setattr(closed_form, "MOST_INPUTS", most)
        readout.outputs = [2, 1]
        readout.fit(x, y, torch.arange(40))
    assert [len(readout.kept) for readout in readouts] == [27, 20]
    assert set(range(9, 27)) <= set(readouts[1].kept.tolist())
    torch.testing.assert_close(readouts[0](x), readouts[1](x), rtol=1e-4, atol=1e-4)


def test_every_class_weighs_the_same_however_many_images_it_has():
    x, y = problem(30, 8)
    rows = torch.cat([torch.arange(30), torch.nonzero(y == 0).flatten().repeat(3)])
    once, often = Ridge(x, y, 3).weights(0.1)[0], Ridge(x[rows], y[rows], 3).weights(0.1)[0]
    torch.testing.assert_close(once, often, rtol=1e-3, atol=1e-4)


def test_copies_of_an_image_are_never_apart_and_a_quarter_of_each_class_is_left_out():
    image = torch.arange(40).repeat(3)
    y = (image % 40) // 10
    chosen = reading._left_out(y, image)
    left, kept = set(image[chosen].tolist()), set(image[~chosen].tolist())
    assert not left & kept
    assert [sum(i // 10 == label for i in left) for label in range(4)] == [2, 2, 2, 2]


@pytest.mark.parametrize(("each", "left"), [(1, 0), (2, 1), (3, 1), (4, 1), (8, 2)])
def test_of_few_images_one_of_each_class_is_left_out_and_of_one_none(each, left):
    image = torch.arange(3 * each)
    y = image // each
    assert int(reading._left_out(y, image).sum()) == 3 * left
    readout = ReadOut()
    readout.outputs = [2, 1]
    fit = readout.fit(torch.randn(len(y), 5, generator=torch.Generator().manual_seed(0)), y, image)
    assert readout.fitted
    assert all(buffer.isfinite().all() for buffer in (readout.weight, readout.bias))
    assert ("too few images" in fit.text()) == (left == 0)
    assert left or (fit.alpha, fit.temperature, fit.sure) == (1.0, 0.1, 0.0)


def test_what_is_fitted_lies_where_the_network_does():
    x, y = problem(20, 6)
    readout = ReadOut().to("meta")
    readout.outputs = [2, 1]
    readout.fit(x, y, torch.arange(20))
    assert {buffer.device.type for buffer in readout.buffers()} == {"meta"}


def test_the_same_images_give_the_same_bits_and_the_temperature_calibrates():
    x, y = problem(120, 12)
    first, second = ReadOut(), ReadOut()
    for readout in (first, second):
        readout.outputs = [2, 1]
        fit = readout.fit(x, y, torch.arange(120))
    assert all(torch.equal(a, b) for a, b in zip(first.buffers(), second.buffers(), strict=True))
    assert fit.alpha in reading.ALPHAS
    assert fit.accuracy > 0.8
    calibrated = F.nll_loss(first(x), y)
    first.temperature.fill_(1.0)
    assert calibrated < 0.5 * F.nll_loss(first(x), y)
    torch.testing.assert_close(first(x).exp().sum(1), torch.ones(120))


def test_so_sure_as_it_seldom_is_when_it_is_wrong():
    p = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.99, 0.95, 0.85, 0.55])
    told = torch.stack([p, 1 - p], dim=1).log()
    wrong = Choice(1.0, 1.0, told, torch.arange(8) >= 4)
    assert [round(math.exp(wrong.bar(missed)), 4) for missed in (0.1, 0.25, 0.5, 0.9)] == [0.9, 0.8, 0.7, 0.6]
    assert wrong.bar(0.0) == math.inf
    assert Choice(1.0, 1.0, told, torch.ones(8, dtype=torch.bool)).bar(0.5) == math.inf, "no error to judge by"
    mostly = Choice(1.0, 1.0, told, torch.arange(8) >= 6)  # six wrong, two right: half of two may be missed
    assert [round(math.exp(mostly.bar(missed)), 4) for missed in (0.1, 0.5, 0.9)] == [0.99, 0.95, 0.95]
    assert reading.UNCHOSEN.bar(0.5) == math.inf


def test_how_often_it_is_unsure_is_kept_for_each_number_of_tasks():
    x, y = problem(240, 12)
    x = 0.2 * x + torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    readout = ReadOut(missed=0.2)
    readout.outputs = [2]
    readout.add_task(1)
    fit = readout.fit(x, y, torch.arange(240))
    left = reading._left_out(y, torch.arange(240))
    chosen = reading._choose(x, y, left, 3)
    wrong = chosen.told.argmax(1) != y[left]
    unsure = chosen.told.amax(1) <= readout.bar
    assert 0 < (wrong & ~unsure).sum() == math.floor(0.2 * int(wrong.sum()))
    assert readout.asks.tolist() == pytest.approx([1.0, float(unsure.double().mean())])
    assert fit.sure == pytest.approx(1 - float(unsure.double().mean()))
    assert 0 < fit.sure < 1
    assert f"sure of {100 * fit.sure:.0f} %" in fit.text()
    told = readout(x)
    assert torch.equal(readout.unsure(told), told.max(1).values <= readout.bar)
    readout.add_task(1)
    readout.fit(torch.cat([x, x[:, :1]], dim=1), torch.arange(240) % 4, torch.arange(240))
    assert readout.asks[:2].tolist() == pytest.approx([1.0, 1 - fit.sure])
    assert len(readout.asks) == 3
    other = ReadOut()
    other.outputs = list(readout.outputs)
    other.load_state_dict(readout.state_dict())
    assert torch.equal(other.bar, readout.bar)
    assert torch.equal(other.asks, readout.asks), "a run that goes on asks as before"


def test_what_stands_in_older_files_reads_all_inputs():
    x, y = problem(20, 9)
    readout, older = ReadOut(), ReadOut()
    readout.outputs = older.outputs = [2, 1]
    readout.fit(x, y, torch.arange(20))
    newer = ("kept", "bar", "asks")
    older.load_state_dict({name: value for name, value in readout.state_dict().items() if name not in newer})
    assert older.unsure(older(x)).all(), "a companion was asked about all images"
    assert older.asks.tolist() == [1.0, 1.0]
    assert torch.equal(older(x), readout(x))
    assert torch.equal(older.kept, readout.kept)


def test_the_grid_follows_the_number_of_layers_and_small_maps_are_not_stretched():
    assert [grid_of(layers) for layers in (1, 3, 5, 12, 20, 100)] == [6, 4, 3, 2, 1, 1]
    h = torch.arange(2 * 3 * 4 * 4.0).reshape(2, 3, 4, 4)
    assert torch.equal(pooled(h, 1), h.mean((2, 3)))
    assert torch.equal(pooled(h, 2)[:, 0], h[:, 0, :2, :2].mean((1, 2)))
    assert torch.equal(pooled(h, 6), h.flatten(1))
    assert torch.equal(pooled(h[:, :, 0, 0], 4), h[:, :, 0, 0])


@pytest.fixture(scope="module", params=["simple_cnn", "resnet18", "mlp"])
def learnt(request, tmp_path_factory):
    """A learner that has learnt three tasks, and its tasks."""
    size = {"tasks": 3, "data": {"synthetic_classes": 6, "synthetic_per_class": 20}}
    out = tmp_path_factory.mktemp("run") / "run"
    run(tiny.experiment("ccgn-episodic", request.param, **size, options={"companion": 0.0}), out)
    learner, scenario, _ = load(out)
    return learner.eval(), scenario.tasks


def test_what_is_read_is_every_gated_layer_at_the_channels_it_can_open(learnt):
    learner, tasks = learnt
    x = learner.input(tasks[0].test.x[:5])
    for task in range(3):
        maps = []
        handles = [
            layer.register_forward_hook(lambda _, __, out, maps=maps: maps.append(out[0]))
            for layer in learner.gated.values()
        ]
        with torch.no_grad():
            features, found = read(learner.backbone, x, task)
        for handle in handles:
            handle.remove()
        assert torch.equal(features, learner.backbone(x, task).features)
        grid = grid_of(len(learner.gated))
        signed = [pooled(h, grid) for h in maps]
        assert torch.equal(found, torch.cat([torch.where(h < 0, -1.0, 1.0) * h.abs().sqrt() for h in signed], dim=1))
    x = tasks[0].test.x
    with torch.no_grad():
        found = learner.inputs_of(learner.streams(x))[2]
        logits = torch.cat([learner.predict(x, task) for task in range(3)], dim=1)
        torch.testing.assert_close(found[:, -6:], logits, rtol=1e-5, atol=1e-5)
    inputs = learner.readout.inputs.tolist()
    assert found.shape[1] == sum(inputs) + 6 == learner.readout.weight.shape[1]
    assert learner.readout.macs == [0, (sum(inputs[:2]) + 4) * 4, (sum(inputs) + 6) * 6]


def test_of_many_inputs_so_many_are_read_and_everything_follows(learnt, monkeypatch):
    """Fitted to 20 of all inputs: answers, compiled and exported forms, costs and files know no others."""
    learner, stored = copy.deepcopy(learnt[0]), learnt[0].memory.stored()
    x, y = stored.x, stored.y + 2 * stored.task
    monkeypatch.setattr(closed_form, "MOST_INPUTS", 20)
    with torch.no_grad():
        inputs = learner.inputs_of(learner.streams(x))[2]
        readout = learner.readout
        readout.fit(inputs, y, torch.arange(len(y)))
        assert readout.weight.shape == (6, 20 + 6)
        columns = [*readout.kept.tolist(), *range(inputs.shape[1] - 6, inputs.shape[1])]
        scores = torch.stack(
            [sum(w * inputs[:, c] for w, c in zip(row, columns, strict=True)) for row in readout.weight]
        )
        torch.testing.assert_close(
            readout(inputs), ((scores.T + readout.bias) / readout.temperature).log_softmax(1), rtol=1e-3, atol=1e-3
        )
        every = readout.part(0, inputs.shape[1] - 6)
        assert torch.equal(every[:, readout.kept.long()], readout.weight[:, :20])
        assert every.count_nonzero() <= 6 * 20
        assert torch.equal(torch.cat([readout.part(0, 7), readout.part(7, 9)], dim=1), readout.part(0, 16))
        assert readout.macs[-1] == (20 + 6) * 6
        compiled = compile_learner(learner, x)
        for part in (x[:3], x):
            torch.testing.assert_close(compiled.predict(part, None), learner.predict(part, None), rtol=1e-4, atol=1e-4)
        other = copy.deepcopy(learnt[0])
        other.load_state_dict(learner.state_dict())
        assert torch.equal(other.predict(x, None), learner.predict(x, None))


def test_its_answer_is_that_without_the_task_whatever_the_task_classifier_says(learnt):
    """Joint: p(y|x) as it is. Argmax: the head of the likeliest task."""
    learner, tasks = copy.deepcopy(learnt[0]), learnt[1]
    x = torch.cat([task.test.x for task in tasks])
    with torch.no_grad():
        answers = learner.answers(x)
        classes = learner.readout(learner.inputs_of(learner.streams(x))[2]).exp()
        heads = torch.cat([learner.predict(x, t).softmax(1) for t in range(3)], dim=1)
        learner.task_classifier.out.bias.add_(torch.randn(learner.task_classifier.out.bias.shape))
        assert torch.equal(learner.answers(x)["joint"], answers["joint"])
    of_task = torch.stack([classes[:, 2 * t : 2 * t + 2].sum(1) for t in range(3)], dim=1)
    torch.testing.assert_close(answers["joint"].exp(), classes, rtol=1e-3, atol=1e-5)
    chosen = answers["argmax"].argmax(1)
    assert torch.equal(chosen // 2, of_task.argmax(1))
    assert torch.equal(chosen % 2, heads.view(-1, 3, 2)[torch.arange(len(x)), chosen // 2].argmax(1))


def test_two_threads_that_ask_at_once_are_each_answered_by_their_own_images(learnt):
    learner, tasks = learnt
    images = [task.test.x[:4] for task in tasks[:2]]
    together = threading.Barrier(2, timeout=20)
    first, *_, last = learner.gated.values()

    def wait(*_):
        together.wait()

    with torch.no_grad():
        wanted = [learner.answers(x)["joint"] for x in images]
    handles = [first.register_forward_pre_hook(wait), last.register_forward_hook(wait)]  # in step, stream by stream
    try:
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(torch.no_grad()(lambda x: learner.answers(x)["joint"]), images))
    finally:
        for handle in handles:
            handle.remove()
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_with_little_ridge_it_knows_the_stored_images_by_heart(learnt, monkeypatch):
    learner, stored = copy.deepcopy(learnt[0]), learnt[0].memory.stored()
    monkeypatch.setattr(reading, "ALPHAS", (1e-4,))
    y = stored.y + 2 * stored.task
    with torch.no_grad():
        learner.readout.fit(learner.inputs_of(learner.streams(stored.x))[2], y, torch.arange(len(y)))
        found = learner.readout(learner.inputs_of(learner.streams(stored.x))[2]).argmax(1)
    assert (found == y).float().mean() > 0.9


def test_while_a_task_is_learnt_the_paper_s_classifier_answers_and_the_past_does_not_move(learnt):
    learner, tasks = copy.deepcopy(learnt[0]), learnt[1]
    before = [stream.clone() for stream in learner.streams(tasks[0].test.x)]
    torch.manual_seed(0)
    learner.begin_task(tasks[0])
    assert not learner.readout.fitted
    learner.eval()
    with torch.no_grad():
        assert learner.predict(tasks[0].test.x, None).shape[1] == 8
        after = learner.streams(tasks[0].test.x, range(3))
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
