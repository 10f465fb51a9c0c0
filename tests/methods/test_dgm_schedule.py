"""DGM's schedule: slopes over an epoch and over epochs, rounds, a budget equal to other GANs', and masks that move."""

from __future__ import annotations

import pytest
import torch

from lockgate.memory.gan.options import GanOptions
from lockgate.memory.gan.wgan_gp import Rounds
from lockgate.methods.dgm.method import largest_slope

GAN = {"width": 0.02, "iterations": 2, "critic_steps": 2, "penalty_every": 2, "batch_size": 8}
VARIANTS = pytest.mark.parametrize("variant", ["w", "a"])


def test_the_slope_that_an_epoch_ends_with_grows_from_epoch_to_epoch():
    assert largest_slope(0, 4, 100.0) == pytest.approx(0.01 + 99.99 / 4)
    assert largest_slope(2, 4, 100.0) == pytest.approx(0.01 + 99.99 * 3 / 4)
    assert largest_slope(3, 4, 100.0) == 100.0
    assert largest_slope(0, 1000, 100.0) == 1.0, "below 1 it would fall within the epoch"


def test_masks_harden_within_each_epoch_and_more_with_every_epoch(world):
    learner, scenario = world("dgm", s_max=40.0, gan=GAN)
    learner.begin_task(scenario.tasks[0])
    learner.train()
    learner.epochs, learner.steps = 2, 2 * 4
    found = []
    for step in range(16):
        learner.epoch, learner.step = divmod(step, 8)[0], step
        learner(scenario.tasks[0].train.batch(slice(8)))
        found.append(learner.generator.layers[1].scale)
    half = 1 / 40 + (40 - 1 / 40) / 2
    by_hand = [1 / half] * 4 + [half] * 4 + [1 / 40] * 4 + [40] * 4
    assert found == pytest.approx(by_hand)


def test_masks_are_compensated_by_the_epochs_own_slope(world):
    learner, scenario = world("dgm", variant="a", s_max=40.0, gan=GAN)
    learner.begin_task(scenario.tasks[0])
    learner.train()
    learner.epoch, learner.epochs, learner.step = 0, 2, 3
    (learner.generator.layers[0].embeddings[0]).data.fill_(0.3)
    torch.stack(list(learner(scenario.tasks[0].train.batch(slice(8))).values())).sum().backward()
    e = learner.generator.layers[0].embeddings[0]
    before, s, largest = e.grad.double().clone(), learner.generator.layers[0].scale, 1 / 40 + (40 - 1 / 40) / 2
    learner.before_step()
    x = e.detach().double()
    by_hand = before * largest / s * ((s * x).cosh() + 1) / (x.cosh() + 1)
    torch.testing.assert_close(e.grad.double(), by_hand, rtol=1e-4, atol=1e-12)


def test_a_round_is_the_classifiers_steps_then_the_critics_then_the_generators():
    rounds = Rounds(critic_steps=2, penalty_every=2, class_steps=3)
    turns = [
        "class" if rounds.is_classifiers(s) else "generator" if rounds.is_generators(s) else "critic" for s in range(12)
    ]
    assert turns == (["class"] * 3 + ["critic"] * 2 + ["generator"]) * 2
    assert [rounds.iteration(step) for step in (0, 5, 6, 11)] == [1, 1, 2, 2]
    assert [rounds.penalty(step) for step in (3, 4, 9, 10)] == [20.0, 0.0, 20.0, 0.0]
    plain = Rounds(critic_steps=2, penalty_every=2)
    assert [plain.penalty(step) for step in (0, 1, 3, 4)] == [20.0, 0.0, 20.0, 0.0], "as often as without a classifier"


@pytest.mark.parametrize("tasks", [1, 3])
def test_the_critic_and_the_generator_have_the_steps_that_other_gans_have(world, tasks):
    learner, scenario = world("dgm", gan={**GAN, "iterations": 150})
    for task in scenario.tasks[:tasks]:
        learner.begin_task(task)
        learner.end_task(task)
    gan = GanOptions(iterations=150, critic_steps=2)
    steps = range(gan.epochs * gan.iterations_per_epoch * learner.rounds.length)
    mine = [(learner.rounds.is_classifiers(s), learner.rounds.is_generators(s)) for s in steps]
    plain = Rounds(gan.critic_steps, gan.penalty_every)
    others = [plain.is_generators(step) for step in range(gan.steps)]
    assert mine.count((False, True)) == others.count(True) == 200
    assert mine.count((False, False)) == others.count(False) == 400
    assert mine.count((True, False)) == 200 * tasks, "the authors' own: one an iteration for each task seen"
    assert learner.stage_steps([5] * tasks, lambda images: 0)[-1] == len(steps)


def taught(world, variant: str, sparsity: float, iterations: int = 60) -> tuple[list[float], torch.Tensor]:
    """The share that the masks take in each iteration of a task, and what they hold in the end, at the default rate."""
    gan = {**GAN, "width": 0.05, "iterations": iterations}
    learner, scenario = world("dgm", variant=variant, sparsity=sparsity, gan=gan)
    task = scenario.tasks[0]
    learner.begin_task(task)
    optimiser = torch.optim.Adam(learner.parameter_groups(learner.options.gan.lr), betas=(0.5, 0.9))
    learner.train()
    learner.epochs, learner.steps, shares = 1, iterations * learner.rounds.length, []
    for step in range(learner.steps):
        learner.step = step
        torch.manual_seed(step)
        losses = learner(task.train.batch(torch.randint(len(task.train), (8,))))
        torch.stack(list(losses.values())).sum().backward()
        learner.after_backward()
        learner.before_step()
        optimiser.step()
        optimiser.zero_grad()
        learner.after_step()
        shares += [losses["sparsity"].item() / sparsity] if "sparsity" in losses else []
    return shares, torch.cat([layer.held(0).flatten() for layer in learner.generator.layers])


@VARIANTS
def test_masks_move_and_the_sparsity_term_falls(world, variant):
    shares, held = taught(world, variant, sparsity=5.0)
    assert shares[0] == pytest.approx(0.5), "undecided"
    falling = [sum(shares[i : i + 20]) / 20 for i in (0, 20, 40)]
    assert falling[0] > falling[1] > falling[2]
    assert falling[2] < 0.25
    assert held.double().mean() < 0.25, "most were decided against, in sixty iterations"
    _, freely = taught(world, variant, sparsity=1e-3)
    assert freely.double().mean() > held.double().mean() + 0.1, "the price decides how many"
    assert freely.double().mean() < 0.95, "without a price the images decide"
