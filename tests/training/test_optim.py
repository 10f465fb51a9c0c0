"""Learning rates against closed forms and against torch's own scheduler; an optimiser that is made as configured."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.config import Experiment, OptimConfig
from lockgate.methods.base import Method
from lockgate.runs.build import build_learner, build_scenario, validated
from lockgate.training.optim import lr_factor, make_optimiser, set_lr

Tiny = Callable[..., Experiment]


def learner_of(experiment: Experiment) -> Method:
    experiment = validated(experiment)
    scenario = build_scenario(experiment)
    learner = build_learner(experiment, scenario.image_shape)
    learner.begin_task(scenario.tasks[0])
    return learner


@given(st.integers(0, 1000), st.floats(0, 1))
def test_a_constant_rate_is_constant(epoch: int, progress: float) -> None:
    assert lr_factor(OptimConfig(schedule="constant"), epoch, progress) == 1.0


@given(st.lists(st.integers(0, 50), unique=True, max_size=4), st.integers(0, 60), st.floats(0, 1))
def test_each_milestone_divides_the_rate_by_ten_once_that_many_epochs_are_over(
    milestones: list[int], epoch: int, progress: float
) -> None:
    config = OptimConfig(schedule="milestones", milestones=tuple(milestones))
    passed = len([m for m in milestones if m <= epoch])
    assert lr_factor(config, epoch, progress) == pytest.approx(10.0**-passed)


def test_the_papers_milestones_fall_after_epochs_400_and_600() -> None:
    config = OptimConfig(schedule="milestones", milestones=(400, 600))
    rates = [0.01 * lr_factor(config, epoch, epoch / 800) for epoch in (0, 399, 400, 599, 600, 799)]
    assert rates == pytest.approx([0.01, 0.01, 0.001, 0.001, 0.0001, 0.0001])


def test_milestones_agree_with_torchs_multi_step_rate() -> None:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.MultiStepLR(optimiser, milestones=[3, 5, 8], gamma=0.1)
    config = OptimConfig(schedule="milestones", milestones=(3, 5, 8))
    for epoch in range(10):
        assert lr_factor(config, epoch, epoch / 10) == pytest.approx(optimiser.param_groups[0]["lr"])
        optimiser.step()
        theirs.step()


@pytest.mark.parametrize("total", [20, 100, 1000])
def test_one_cycle_agrees_with_torchs_up_to_the_length_of_a_step(total: int) -> None:
    # Torch reaches the peak at step 0.3 T - 1 and the end at step T - 1; ours at 0.3 T and T. The slope is at most
    # pi / 2 / 0.3 per unit of progress, so rates differ by less than pi / 2 / 0.3 / T.
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        optimiser,
        max_lr=1.0,
        total_steps=total,
        pct_start=0.3,
        anneal_strategy="cos",
        div_factor=25,
        final_div_factor=1e4 / 25,  # of the first rate: the last one is 1e-4 of the peak
        cycle_momentum=False,
    )
    config = OptimConfig(schedule="one_cycle")
    for step in range(total):
        assert abs(lr_factor(config, 0, step / total) - optimiser.param_groups[0]["lr"]) < math.pi / 2 / 0.3 / total
        optimiser.step()
        if step < total - 1:
            theirs.step()
    assert lr_factor(config, 0, 1.0) == pytest.approx(optimiser.param_groups[0]["lr"])


def test_one_cycle_passes_through_its_corners_and_midpoints() -> None:
    config = OptimConfig(schedule="one_cycle")
    at = [lr_factor(config, 0, p) for p in (0, 0.15, 0.3, 0.65, 1)]
    assert at == pytest.approx([1 / 25, (1 / 25 + 1) / 2, 1, (1 + 1e-4) / 2, 1e-4])


@given(st.floats(0, 1), st.floats(0, 1))
def test_one_cycle_rises_to_its_peak_and_falls_after_it(one: float, other: float) -> None:
    config = OptimConfig(schedule="one_cycle")
    low, high = sorted((one, other))
    early, late = lr_factor(config, 0, low), lr_factor(config, 0, high)
    assert 1e-4 <= early <= 1 + 1e-12
    if high < 0.3:
        assert early <= late + 1e-12
    elif low >= 0.3:
        assert early >= late - 1e-12


def test_sgd_and_adamw_are_made_as_configured(tiny: Tiny) -> None:
    learner = learner_of(tiny())
    sgd = make_optimiser(learner, OptimConfig(optimiser="sgd", lr=0.2, momentum=0.7, weight_decay=0.03))
    assert type(sgd) is torch.optim.SGD
    (group,) = sgd.param_groups
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.2, 0.7, 0.03)
    adamw = make_optimiser(learner, OptimConfig(optimiser="adamw", lr=0.2, weight_decay=0.03))
    assert type(adamw) is torch.optim.AdamW
    assert (adamw.param_groups[0]["lr"], adamw.param_groups[0]["weight_decay"]) == (0.2, 0.03)
    assert not adamw.state, "no stale momentum"


@pytest.mark.parametrize("method", ["finetune", "joint", "ccgn"])
def test_every_trainable_parameter_is_in_one_group_and_no_other_is(tiny: Tiny, method: str) -> None:
    learner = learner_of(tiny(method=method))
    grouped = [id(p) for group in make_optimiser(learner, OptimConfig()).param_groups for p in group["params"]]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == {id(p) for p in learner.parameters() if p.requires_grad}


def test_gates_have_their_own_rate_and_keep_its_ratio_through_the_schedule(tiny: Tiny) -> None:
    learner = learner_of(tiny(method="ccgn", options={"gate_lr": 5.0}))
    optimiser = make_optimiser(learner, OptimConfig(lr=0.01))
    names = {id(p): name for name, p in learner.named_parameters()}
    rates: dict[bool, set[Any]] = {True: set(), False: set()}
    set_lr(optimiser, 0.5)
    set_lr(optimiser, 0.1)  # of the peak, not of the rate before
    for group in optimiser.param_groups:
        for p in group["params"]:
            rates[".gates." in names[id(p)]].add(round(group["lr"], 12))
    assert rates == {True: {0.005}, False: {0.001}}
    assert [group["peak_lr"] for group in optimiser.param_groups] == pytest.approx([0.01, 0.05])


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 1))
def test_setting_a_rate_forgets_the_one_before(first: float, second: float) -> None:
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([parameter], lr=0.25)
    optimiser.param_groups[0]["peak_lr"] = 0.25
    set_lr(optimiser, first)
    set_lr(optimiser, second)
    assert optimiser.param_groups[0]["lr"] == 0.25 * second
