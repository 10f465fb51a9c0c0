"""The budget: prices rise above a bound and fall below it, and a task never takes more than its part."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny

from lockgate.methods.ccgn.budget import RATE, Budget
from lockgate.runs.build import build_learner
from lockgate.runs.run import run
from lockgate.training.phase import evaluating
from lockgate.types import Batch

WIDTH = 20


def made(share: float = 0.8, start: float = 0.5):
    """A budget over the layers of a learner that has learnt nothing."""
    learner, scenario = tiny.world("ccgn", width=WIDTH, budget=share, sparsity=start)
    learner.begin_task(scenario.tasks[0])
    return learner, learner.budget


def test_of_five_tasks_each_may_take_its_part_and_what_was_left():
    learner, budget = made()
    layers = list(learner.gated.values())
    budget.begin_task(0, 5, 0.0)
    assert budget.quota.tolist() == [3, 3, 3]  # 0.8 * 20 / 5, rounded down
    layers[0].owner[:1] = 0
    layers[1].owner[:3] = 0
    budget.begin_task(1, 5, 0.0)
    assert budget.quota.tolist() == [5, 3, 6]  # 6 by the second task, less what is taken
    layers[2].owner[:16] = 0
    budget.begin_task(4, 5, 0.0)
    assert budget.quota.tolist() == [15, 13, 1]  # never nothing: a stream needs a filter
    assert budget.most_open == pytest.approx((0.8 / 5) ** 0.5)


def test_the_first_task_may_take_a_head_start_and_the_last_still_finds_its_part():
    learner, _ = made()
    layers = list(learner.gated.values())
    budget = Budget(layers, learner.backbone.channels, 0.9, 0.5, head_start=1.0)
    budget.begin_task(0, 5, 0.0)
    assert budget.quota.tolist() == [6, 6, 6]  # 0.9 * 20 * 2 / 6
    for layer in layers:
        layer.owner[:6] = 0
    budget.begin_task(1, 5, 0.0)
    assert budget.quota.tolist() == [3, 3, 3]
    budget.begin_task(4, 5, 0.0)
    assert budget.quota.tolist() == [12, 12, 12]  # 18 in all
    learner = build_learner(tiny.experiment("ccgn", options={"budget": 0.5, "head_start": 0.5}), (3, 8, 8))
    assert learner.budget.head_start == 0.5


def test_where_layers_grow_a_task_may_take_so_much_of_what_is_free():
    learner, budget = made()
    next(iter(learner.gated.values())).owner[:10] = 0
    budget.begin_task(7, 1, 0.3)
    assert budget.quota.tolist() == [8, 16, 16]
    assert budget.most_open == pytest.approx((0.8 / 8) ** 0.5)


def test_prices_rise_above_their_bounds_and_fall_below():
    learner, budget = made()
    budget.begin_task(0, 5, 0.0)
    layers = list(learner.gated.values())
    layers[2].owner[:] = 0  # nothing new in the third layer, whatever opens
    open_ = [torch.ones(4, WIDTH), torch.zeros(4, WIDTH), torch.ones(4, WIDTH)]
    budget.update(open_)
    part, most = 3 / WIDTH, budget.most_open
    assert budget.price_new.tolist() == pytest.approx([0.5 + RATE * (1 - part), 0.5 - RATE * part, 0.5 - RATE * part])
    assert budget.price_open.tolist() == pytest.approx(
        [0.5 + RATE * (1 - most), 0.5 - RATE * most, 0.5 + RATE * (1 - most)]
    )
    new, all_ = budget.price_new.tolist(), budget.price_open.tolist()
    wanted = (new[0] + all_[0] + all_[2]) / 3
    assert budget.loss(open_).item() == pytest.approx(wanted, rel=1e-5)
    for _ in range(2000):
        budget.update([torch.zeros(4, WIDTH)] * 3)
    assert not budget.price_new.any()
    assert not budget.price_open.any()


def test_what_is_above_when_annealing_begins_is_shut_the_least_used_first():
    learner, budget = made()
    budget.begin_task(0, 5, 0.0)
    for layer in learner.gated.values():
        layer.owner[:2] = 0
        layer.gate(0).fires.copy_(torch.arange(WIDTH).float())
        layer.gate(0).pruned[19] = True
    budget.hold(0)
    for layer in learner.gated.values():
        left = torch.nonzero(~layer.gate(0).pruned).flatten().tolist()
        assert left == [0, 1, 16, 17, 18]  # what is locked costs no room


def left_open(learner):
    """Of each layer, how many filters the first task may still open."""
    return [int((~layer.gate(0).pruned).sum()) for layer in learner.gated.values()]


def test_the_room_comes_down_from_a_whole_layer_to_the_part_of_the_task():
    learner, budget = made()
    budget.begin_task(0, 5, 0.0)
    for layer in learner.gated.values():
        layer.owner[:2] = 0
        layer.gate(0).fires.copy_(torch.arange(WIDTH).float())
    assert not budget.narrow(0, 0.0)
    assert left_open(learner) == [20, 20, 20]
    assert budget.narrow(0, 0.5)
    assert left_open(learner) == [2 + 3 + 8] * 3  # half of the 15 that are too many, rounded up, beside what is locked
    assert not budget.narrow(0, 0.5)
    budget.narrow(0, 1.0)
    for layer in learner.gated.values():
        assert torch.nonzero(~layer.gate(0).pruned).flatten().tolist() == [0, 1, 17, 18, 19]
    budget.hold(0)
    assert left_open(learner) == [5, 5, 5], "nothing is left to be shut"


def taught(learner, task, steps):
    """Steps of a task of ten epochs of a hundred, without an optimiser: what is shut in them depends on gates alone."""
    learner.train()
    learner.epochs, learner.steps = 10, 100
    for step in steps:
        learner.epoch, learner.step, learner.progress = step // 100, step, step / 1000
        torch.manual_seed(step)
        rows = torch.randint(len(task.train), (8,))
        learner(Batch(task.train.x[rows], task.train.y[rows], task.train.task[rows]))


def test_a_room_that_has_come_half_way_goes_on_where_it_was_after_a_resume():
    options = {"budget": 0.8, "anneal": 0.5, "prune": 0.001, "sparsity_warmup": "loss", "open_bias": 3.0}
    first, scenario = tiny.world("ccgn", width=WIDTH, **options)
    second, _ = tiny.world("ccgn", width=WIDTH, **options)
    task = scenario.tasks[0]
    for learner in (first, second):
        torch.manual_seed(0)
        learner.begin_task(task)
    taught(first, task, range(420))
    half = left_open(first)
    quota = first.budget.quota.tolist()
    assert all(most < left < WIDTH for most, left in zip(quota, half, strict=True))
    second.load_state_dict(first.state_dict())
    for learner in (first, second):
        taught(learner, task, range(420, 501))
    assert left_open(first) == quota
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name


def test_of_filters_that_fired_as_often_those_go_that_matter_least():
    learner, budget = made()
    budget.begin_task(0, 5, 0.0)
    first, second, last = learner.gated.values()
    with torch.no_grad():
        for layer in (first, second, last):
            layer.gate(0).fires.fill_(7.0)
        first.weight[4] *= 9.0  # written strongly, and read as the others are
        second.weight[:, 6] *= 9.0  # read strongly
        first.weight[8] *= 3.0
        second.weight[:, 8] *= 3.0  # both
        last.weight[[1, 3, 5]] *= 9.0  # nothing but a head reads it
        last.gate(0).fires[3] = 6.0
    budget.narrow(0, 1.0)
    assert torch.nonzero(~first.gate(0).pruned).flatten().tolist() == [4, 6, 8]
    kept = torch.nonzero(~last.gate(0).pruned).flatten().tolist()
    assert len(kept) == 3
    assert {1, 5} < set(kept), "how often a filter fired comes first"


def test_a_deep_network_with_few_steps_is_not_at_chance(tmp_path):
    """Its room comes down before its first step: shut later, five classes ended at 0.2."""
    experiment = tiny.experiment(
        "ccgn",
        "resnet18",
        dataset="digits",
        tasks=2,
        epochs=4,
        scenario={"per_class": 100},
        model={"width": 8, "blocks": [2, 2, 2, 2]},
        optim={"optimiser": "adamw", "lr": 0.001, "schedule": "one_cycle", "batch_size": 16},
        options={
            **{"budget": 0.8, "head_start": 1.0, "sparsity": 0.5, "sparsity_warmup": "loss", "anneal": 0.35},
            **{"gate_lr": 5.0, "open_bias": 2.5, "prune": 0.001, "companion": 0.0},
        },
    )
    summary = run(experiment, tmp_path / "run")
    assert summary["audit"]["ok"]
    assert summary["task_incremental"]["matrix"][0][0] > 0.5
    for layer in summary["capacity"]["layers"]:
        assert layer["used_after"][0] <= 0.8 * layer["width"] * 2 / 3


def test_where_layers_grow_a_stream_is_no_wider_than_they_were_at_first():
    learner, scenario = tiny.world("ccgn", width=WIDTH, budget=0.8, grow=1.0)
    for task in scenario.tasks[:2]:
        for layer in learner.gated.values():
            layer.owner[:] = 0  # all that there is, so that as much comes again
        learner.begin_task(task)
    for layer in learner.gated.values():
        assert layer.width == 2 * WIDTH
        layer.gate(1).fires.copy_(torch.arange(2 * WIDTH).float())
    learner.budget.hold(1)
    for layer in learner.gated.values():
        left = torch.nonzero(~layer.gate(1).pruned).flatten().tolist()
        new = range(WIDTH + 4, 2 * WIDTH)  # 0.8 of what is free, the most used; then of all the most used
        assert left == [16, 17, 18, 19, *new]


def test_a_late_stream_that_was_learnt_is_no_wider_either(tmp_path):
    size = {"tasks": 3, "epochs": 3, "data": {"synthetic_classes": 6, "synthetic_per_class": 40}, "model": {"width": 6}}
    options = {"budget": 0.8, "grow": 1.0, "open_bias": 3.0, "sparsity_warmup": 0}
    summary = run(tiny.experiment("ccgn", options=options, **size), tmp_path / "run")
    assert summary["audit"]["ok"]
    for layer in summary["capacity"]["layers"]:
        assert layer["width"] > 6
        assert all(0 < count <= 6 for count in layer["relevant"])


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18"])
@pytest.mark.parametrize(("method", "selection"), [("ccgn", "accuracy"), ("ccgn-episodic", "last")])
@pytest.mark.parametrize("anneal", [0.4, 0.0])
def test_no_layer_is_fuller_than_its_budget_and_the_past_stays(method, selection, backbone, anneal, tmp_path):
    size = {
        "tasks": 3,
        "epochs": 3,
        "data": {"synthetic_classes": 6, "synthetic_per_class": 40},
        "model": {"width": 20},
    }
    options = {"budget": 0.6, "anneal": anneal, "open_bias": 3.0, "sparsity_warmup": 0}
    experiment = tiny.experiment(method, backbone, options=options, optim={"selection": selection}, **size)
    summary = run(experiment, tmp_path / "run")
    assert summary["audit"]["ok"]
    for layer in summary["capacity"]["layers"]:
        assert all(used <= 0.6 * layer["width"] * (t + 1) / 3 for t, used in enumerate(layer["used_after"]))
        assert layer["used_after"][-1] > 0


def test_without_it_the_same_run_fills_its_layers(tmp_path):
    size = {
        "tasks": 3,
        "epochs": 3,
        "data": {"synthetic_classes": 6, "synthetic_per_class": 40},
        "model": {"width": 20},
    }
    options = {"anneal": 0.4, "open_bias": 3.0, "sparsity_warmup": 0}
    summary = run(tiny.experiment("ccgn", options=options, **size), tmp_path / "run")
    assert all(layer["used_after"][-1] == layer["width"] for layer in summary["capacity"]["layers"])


def test_held_out_images_move_no_price():
    learner, budget = made()
    learner.epoch, learner.epochs = 5, 10
    before = budget.price_new.clone()
    with evaluating(learner), torch.no_grad():
        x = torch.randint(256, (8, *learner.image_shape), dtype=torch.uint8)
        learner(tiny_batch(x))
    assert torch.equal(budget.price_new, before)


def tiny_batch(x):
    """Two classes in turn."""
    y = torch.arange(len(x)) % 2
    return Batch(x, y, torch.zeros_like(y))
