"""DGM on a tiny real scenario: what each step trains and on what, heads that start anew, and a past that stays."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from tests.support import tiny

from lockgate.config import build
from lockgate.memory.gan.acgan import NOISE
from lockgate.methods.protocols import memory_use
from lockgate.runs.task_phase import task_phase
from lockgate.testing import walk
from lockgate.types import Batch

VARIANTS = pytest.mark.parametrize("variant", ["w", "a"])
GAN = {"gan": {"width": 0.02, "iterations": 2, "critic_steps": 2, "penalty_every": 1, "batch_size": 8}}
OPTIMISERS = {
    "sgd": lambda groups: torch.optim.SGD(groups, momentum=0.9, weight_decay=0.1),
    "adamw": lambda groups: torch.optim.AdamW(groups, weight_decay=0.1),
}


def begun(world, tasks: int, variant: str = "w"):
    """A learner that has begun ``tasks`` tasks, and the newest."""
    learner, scenario = world("dgm", variant=variant, **GAN)
    for task in scenario.tasks[:tasks]:
        learner.begin_task(task)
        if task.id < tasks - 1:
            learner.end_task(task)
    learner.train()
    return learner, scenario.tasks[tasks - 1]


def learn(learner, task, optimiser, steps: int = 6) -> None:
    """A few steps in the engine's order."""
    learner.train()
    learner.steps = steps
    for step in range(steps):
        learner.step = step
        torch.stack(list(learner(task.train.batch(slice(12))).values())).sum().backward()
        learner.after_backward()
        torch.nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        learner.before_step()
        optimiser.step()
        optimiser.zero_grad()
        learner.after_step()


def images(learner, task: int) -> torch.Tensor:
    """Images of every class of a task, from noise that is always the same."""
    learner.eval()
    y = torch.arange(learner.starts[task], learner.starts[task + 1]).repeat(3)
    return learner.images(y, task, torch.Generator().manual_seed(task))


# -- the promise -------------------------------------------------------------------------------------------------------


@VARIANTS
@pytest.mark.parametrize("name", list(OPTIMISERS))
def test_past_images_and_locked_weights_keep_every_bit_under_momentum_and_weight_decay(world, variant, name):
    learner, scenario = world("dgm", variant=variant, **GAN)
    made: list[torch.Tensor] = []
    kept: list[dict[str, torch.Tensor]] = []
    for task in scenario.tasks:
        learner.begin_task(task)
        learn(learner, task, OPTIMISERS[name](learner.parameter_groups(0.01)))
        learner.end_task(task)
        made.append(images(learner, task.id))
        kept.append({key: value.clone() for key, value in learner.generator.promised(task.id).items()})
        for past in range(task.id + 1):
            assert torch.equal(images(learner, past), made[past])
            assert all(torch.equal(v, kept[past][key]) for key, v in learner.generator.promised(past).items())
    assert learner.generator.widths(2) > learner.generator.widths(0), "nothing grew: the test would prove nothing"


@VARIANTS
def test_past_images_keep_every_bit_in_the_engine(variant):
    experiment = tiny.experiment("dgm", tasks=3, data={"synthetic_classes": 6}, options={"variant": variant})
    made: dict[int, torch.Tensor] = {}
    for learner, seen in walk(experiment):
        for task in seen:
            now = images(learner, task.id)
            assert torch.equal(made.setdefault(task.id, now), now)
    assert len(made) == 3
    rows = learner.preview()
    assert rows.shape == (3, 6 * 16, 8 * 16)


# -- the steps ---------------------------------------------------------------------------------------------------------


def test_the_classifier_sees_all_classes_alike_real_ones_of_the_task_and_generated_ones_of_the_past(world):
    learner, task = begun(world, 3)
    batch = task.train.batch(slice(10))
    torch.manual_seed(5)
    losses = learner(batch)
    torch.manual_seed(5)
    drawn = torch.randint(6, (10,)).sort().values
    past = drawn[drawn < 4]
    assert 0 < len(past) < 10
    made = learner.past(past)
    real = batch.x[len(past) :] / 255 * 2 - 1
    features = learner.backbone.net(torch.cat([made, real]))
    logits = torch.cat([head(features) for head in learner.heads], 1)
    by_hand = F.cross_entropy(logits, torch.cat([past, batch.y[len(past) :] + 4]))
    torch.testing.assert_close(losses, {"classifier": by_hand})


def test_the_critics_losses_compare_class_by_class(world):
    learner, task = begun(world, 3)
    learner.step = 3  # after the classifier's three
    batch = task.train.batch(slice(10))
    torch.manual_seed(5)
    losses = learner(batch)
    torch.manual_seed(5)
    with torch.no_grad():
        fake = learner.generator(torch.randn(10, NOISE), batch.y, 2)
    score = 0.0
    for image, made, y in zip(batch.x / 255 * 2 - 1, fake, batch.y.tolist(), strict=True):
        now, then = (learner.score(learner.backbone.net(x[None]))[0, y].item() for x in (made, image))
        score += (now - then) / 10
    assert losses["critic"].item() == pytest.approx(score, rel=1e-4, abs=1e-6)
    assert set(losses) == {"critic", "penalty"}


def test_the_penalty_is_that_of_the_score(world):
    learner, task = begun(world, 1)
    learner.step = 1
    learner.backbone.net = torch.nn.Flatten()
    learner.score = torch.nn.Linear(3 * 16 * 16, 2)
    with torch.no_grad():
        learner.score.weight.mul_(3 / learner.score.weight.norm(dim=1, keepdim=True))
    losses = learner(task.train.batch(slice(5)))
    assert losses["penalty"].item() == pytest.approx(10 * (3 - 1) ** 2, rel=1e-4)


@VARIANTS
def test_the_generators_losses(world, variant):
    learner, task = begun(world, 2, variant)
    learner.epoch, learner.epochs, learner.step = 1, 4, 3 * 5 + 4  # the last of the second epoch
    for e in learner.generator.embeddings():
        torch.nn.init.normal_(e, std=3e-4)
    torch.manual_seed(5)
    losses = learner(task.train.batch(slice(10)))
    largest = 1e-4 + (1e4 - 1e-4) * 2 / 4
    taken, free, units, first = 0.0, 0, 0, 0
    for layer in learner.generator.layers:
        mask = 1 / (1 + (-largest * layer.embeddings[1].double()).exp())
        taken += mask[~layer.used].sum().item()
        free += int((~layer.used).sum())
        units, first = units + layer.width, first + len(layer.biases[0])
    assert units > first
    assert losses["sparsity"].item() == pytest.approx(0.08 * units / first * taken / free, rel=1e-5)
    torch.manual_seed(5)
    y = torch.randint(2, (10,))
    scores = learner.score(learner.backbone.net(learner.generator(torch.randn(10, NOISE), y, 1)))
    torch.testing.assert_close(losses["generator"], -scores[range(10), y].mean())
    assert set(losses) == {"generator", "sparsity"}, "no class loss"


@VARIANTS
def test_each_step_moves_one_network(world, variant):
    learner, task = begun(world, 2, variant)
    optimiser = torch.optim.AdamW(learner.parameter_groups(1e-2), weight_decay=0.0)
    learner.steps = 10
    for step in range(10):
        before = {name: value.clone() for name, value in learner.named_parameters()}
        learner.step = step
        torch.stack(list(learner(task.train.batch(slice(12))).values())).sum().backward()
        learner.after_backward()
        learner.before_step()
        optimiser.step()
        optimiser.zero_grad()
        learner.after_step()
        moved = {name for name, value in learner.named_parameters() if not torch.equal(value, before[name])}
        parts = {name.split(".")[0] for name in moved}
        classifier, critic = {"backbone", "heads"}, {"backbone", "score"}
        assert parts == [classifier, classifier, critic, critic, {"generator"}][step % 5]
        assert not {name for name in moved if re.search(r"(labels|biases|embeddings|norms\.\d\.norms)\.0", name)}


def test_past_images_are_of_the_class_asked_for(world):
    learner, _ = begun(world, 3)
    y = torch.tensor([0, 0, 1, 2, 3, 3])
    torch.manual_seed(1)
    x = learner.past(y)
    torch.manual_seed(1)
    parts = []
    for task in (0, 1):
        local = y[(y >= 2 * task) & (y < 2 * task + 2)] - 2 * task
        with torch.no_grad():
            parts.append(learner.generator(torch.randn(len(local), NOISE), local, task))
    assert torch.equal(x, torch.cat(parts))


def test_held_out_images_are_classified_and_nothing_else(world):
    learner, task = begun(world, 2)
    learner.eval()
    batch = task.val.batch(slice(None))
    losses = learner(batch)
    assert set(losses) == {"class"}
    assert losses["class"].item() == F.cross_entropy(learner.predict(batch.x, None), batch.y + 2).item()


def test_answers_are_the_critics(world):
    learner, task = begun(world, 2)
    x = task.test.x[:5]
    features = learner.backbone.net(x / 255 * 2 - 1)
    torch.testing.assert_close(learner.predict(x, None), torch.cat([head(features) for head in learner.heads], 1))
    torch.testing.assert_close(learner.predict(x, 1), learner.heads[1](features))


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_the_critic_starts_anew_with_each_task_all_of_it(world):
    learner, scenario = world("dgm", **GAN)
    learner.begin_task(scenario.tasks[0])
    before = {name: value.clone() for name, value in learner.named_parameters()}
    learner.end_task(scenario.tasks[0])
    learner.begin_task(scenario.tasks[1])
    now = dict(learner.named_parameters())
    weights = {name for name in before if name.split(".")[0] in ("backbone", "score", "heads") and "weight" in name}
    assert {name.split(".")[0] for name in weights} == {"backbone", "score", "heads"}
    assert all((now[name] != before[name]).all() for name in weights)
    kept = {name for name, value in before.items() if name.startswith("generator") and torch.equal(now[name], value)}
    assert {"generator.labels.0.weight", "generator.outputs.0.1.weight"} <= kept


def test_a_task_is_trained_by_the_gans_schedule_and_judged_like_any_other():
    experiment = tiny.experiment("dgm", epochs=7, options={"gan": {"iterations": 250, "lr": 0.5}})
    learner, seen = next(walk(tiny.experiment("dgm")))
    learner.options = build(type(learner.options), experiment.options)
    phase = task_phase(learner, seen[0], seen[0].train, experiment)
    assert (phase.epochs, phase.steps) == (3, 100 * (1 + 3))
    assert learner.stage_steps([100, 0, 9], lambda images: 12345) == [3 * 100 * 4, 0, 3 * 100 * 6]
    assert (phase.optim.lr, phase.optim.betas, phase.optim.weight_decay, phase.optim.clip) == (0.5, (0.5, 0.9), 0, 0)
    assert phase.trainable is learner
    answers = [int(learner.eval().predict(x[None], 0).argmax()) for x in seen[0].val.x]
    right = sum(a == y for a, y in zip(answers, seen[0].val.y.tolist(), strict=True))
    assert phase.validate().accuracy == right / len(answers)
    assert phase.preview().dtype == torch.uint8


@VARIANTS
def test_a_fresh_learner_takes_the_structure_and_the_state(world, variant):
    learner, task = begun(world, 3, variant)
    learner.end_task(task)
    other, _ = world("dgm", variant=variant, **GAN)
    other.rebuild(learner.structure())
    other.load_state_dict(learner.state_dict())
    for past in range(3):
        assert torch.equal(images(other, past), images(learner, past))
    assert other.report().capacity == learner.report().capacity
    assert memory_use(other) == memory_use(learner)


def test_what_is_remembered_is_the_generators_parameters_without_masks_or_critic(world):
    learner, _ = begun(world, 2)
    count = 0
    for name, parameter in learner.generator.named_parameters():
        count += 0 if "embeddings" in name else parameter.numel()
    assert memory_use(learner) == {"images": 0, "bytes": 4 * count}


def test_mnists_shape_works_too():
    from lockgate.backbones.simple_cnn import SimpleCNN
    from lockgate.config import ModelConfig
    from lockgate.methods.base import Context
    from lockgate.methods.dgm.method import DGM
    from lockgate.methods.dgm.network import DGMOptions

    torch.manual_seed(0)
    backbone = SimpleCNN((1, 28, 28), DGM.layer_factory("he", None), ModelConfig(width=2))
    learner = DGM(Context(backbone, build(DGMOptions, GAN), (1, 28, 28), True))
    learner.add_task(2)
    x = torch.randint(0, 256, (4, 1, 28, 28), dtype=torch.uint8)
    assert torch.equal(learner.input(x), x / 255), "in the range of its generator"
    losses = learner(Batch(x, torch.tensor([0, 1, 1, 0]), torch.zeros(4, dtype=torch.int64)))
    assert all(value.isfinite() for value in losses.values())
