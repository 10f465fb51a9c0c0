"""The generative memory through its hooks, on tiny tasks, with generators that were trained a little."""

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import tiny
from torch import Tensor, nn

from lockgate.memory.gan.nets import LATENT, Generator, make_generator
from lockgate.memory.gan.options import ROUND, GanOptions
from lockgate.memory.generative import GenerativeMemory, generate
from lockgate.runs.build import build_scenario
from lockgate.scenario import Scenario
from lockgate.training.optim import make_optimiser
from lockgate.types import Examples, Task

SCHEDULE = GanOptions(width=0.02, iterations=3, critic_steps=2, penalty_every=1, batch_size=8, lr=1e-3)
SHAPE = (3, 16, 16)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return build_scenario(tiny.experiment("ccgn-generative"))


@pytest.fixture(scope="module")
def at_work(scenario: Scenario) -> GenerativeMemory:
    """In the middle of the second task: its generator is trained, the first one's is kept. Not to be changed."""
    memory = GenerativeMemory(SCHEDULE, mix_real=False)
    learn(memory, scenario.tasks[0])
    memory.end_task(scenario.tasks[0], seeded(0))
    learn(memory, scenario.tasks[1])
    return memory


@pytest.fixture
def memory(at_work: GenerativeMemory) -> GenerativeMemory:
    return copy.deepcopy(at_work)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def learn(memory: GenerativeMemory, task: Task) -> None:
    """A task's beginning and its preparation, in the engine's order."""
    torch.manual_seed(task.id)
    memory.begin_task(task)
    phase = memory.preparation(task)
    optimiser = make_optimiser(phase.trainable, phase.optim)
    phase.trainable.train()
    for step in range(phase.epochs * phase.steps):
        phase.trainable.step = step
        index = torch.randint(len(phase.data), (phase.optim.batch_size,))
        torch.stack(list(phase.trainable(phase.data.batch(index)).values())).sum().backward()
        optimiser.step()
        optimiser.zero_grad()
        phase.trainable.after_step()


def pictures(x: Tensor) -> list[bytes]:
    return [image.numpy().tobytes() for image in x]


def same(a: Examples, b: Examples) -> bool:
    return torch.equal(a.x, b.x) and torch.equal(a.y, b.y) and torch.equal(a.task, b.task)


# -- rehearsal ---------------------------------------------------------------------------------------------------------


def test_draw_gives_generated_images_of_every_task_the_current_one_too(memory: GenerativeMemory, scenario: Scenario):
    drawn = memory.draw(scenario.tasks[1].train, torch.tensor([5, 7]), seeded(0))
    assert drawn.x.shape == (12, *SHAPE)
    assert drawn.x.dtype == torch.uint8
    assert drawn.task.tolist() == [0] * 5 + [1] * 7
    assert set(drawn.y.tolist()) == {-1}  # of no class
    real = {image for t in scenario.tasks for part in (t.train, t.val, t.test) for image in pictures(part.x)}
    made = pictures(drawn.x)
    assert not real & set(made)
    assert len(set(made)) == 12


def test_each_task_is_drawn_from_its_own_generator(memory: GenerativeMemory, scenario: Scenario):
    last = [m for m in memory.generators[0].net if isinstance(m, nn.ConvTranspose2d)][-1]
    nn.init.constant_(last.bias, 100.0)  # the first task's generator now makes white images
    drawn = memory.draw(scenario.tasks[1].train, torch.tensor([3, 3]), seeded(0))
    white = (drawn.x == 255).flatten(1).all(1)
    assert white.tolist() == [True] * 3 + [False] * 3


def test_mixing_real_images_in_gives_real_ones_of_the_current_task_only(memory: GenerativeMemory, scenario: Scenario):
    current = scenario.tasks[1].train
    memory.mix_real = True
    drawn = memory.draw(current, torch.tensor([5, 70]), seeded(0))
    label_of = dict(zip(pictures(current.x), current.y.tolist(), strict=True))
    made = pictures(drawn.x)
    assert not set(made[:5]) & set(label_of)
    assert [label_of[image] for image in made[5:]] == drawn.y[5:].tolist()
    assert drawn.y[:5].tolist() == [-1] * 5
    assert drawn.task.tolist() == [0] * 5 + [1] * 70
    assert len(set(made[5:])) > 20


@pytest.mark.parametrize("mix_real", [False, True])
def test_the_rng_decides_what_is_drawn_and_nothing_else_does(
    memory: GenerativeMemory, scenario: Scenario, mix_real: bool
):
    memory.mix_real = mix_real
    current, counts = scenario.tasks[1].train, torch.tensor([4, 4])
    torch.manual_seed(1)
    before = torch.get_rng_state()
    once, other = memory.draw(current, counts, seeded(0)), memory.draw(current, counts, seeded(1))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert same(once, memory.draw(current, counts, seeded(0)))
    assert not torch.equal(once.x[:4], other.x[:4])
    assert not torch.equal(once.x[4:], other.x[4:])


def test_one_rng_gives_other_images_at_every_draw(memory: GenerativeMemory, scenario: Scenario):
    rng = seeded(0)
    first, second = (memory.draw(scenario.tasks[1].train, torch.tensor([4, 4]), rng) for _ in range(2))
    assert not set(pictures(first.x)) & set(pictures(second.x))
    assert memory.fresh
    assert memory.all(scenario.tasks[1].train) is None  # there is no end to them


def test_a_task_may_be_drawn_no_images_of(memory: GenerativeMemory, scenario: Scenario):
    drawn = memory.draw(scenario.tasks[1].train, torch.tensor([0, 3]), seeded(0))
    assert drawn.task.tolist() == [1, 1, 1]


# -- sampling ----------------------------------------------------------------------------------------------------------


def generator_with_statistics() -> Generator:
    """A generator whose running statistics are not those of its batches, in training mode."""
    torch.manual_seed(0)
    generator = make_generator(SHAPE, 0.02)
    for module in generator.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.1, 0.5)
    return generator.train()


def test_samples_go_by_the_running_statistics():
    generator = generator_with_statistics()
    noise = torch.randn(9, LATENT, generator=seeded(3))
    by_batch = copy.deepcopy(generator).pixels(noise)
    by_statistics = copy.deepcopy(generator).eval().pixels(noise)
    assert torch.equal(generate(generator, torch.randn(9, LATENT, generator=seeded(3))), by_statistics)
    assert not torch.equal(by_batch, by_statistics)


@pytest.mark.parametrize("training", [True, False])
def test_sampling_leaves_the_generator_as_it_was(training: bool):
    generator = generator_with_statistics().train(training)
    before = {name: value.clone() for name, value in generator.state_dict().items()}
    samples = generate(generator, torch.randn(9, LATENT, generator=seeded(3)))
    assert {module.training for module in generator.modules()} == {training}
    assert all(torch.equal(value, before[name]) for name, value in generator.state_dict().items())
    assert not samples.requires_grad
    assert all(p.grad is None for p in generator.parameters())


def test_samples_beyond_one_pass_are_each_their_own_noises_image():
    generator = generator_with_statistics()
    samples = generate(generator, torch.randn(1100, LATENT, generator=seeded(3)))
    noise = torch.randn(1100, LATENT, generator=seeded(3))
    assert samples.shape == (1100, *SHAPE)
    generator.eval()
    for i in (0, 511, 512, 1023, 1024, 1099):
        alone = generator.pixels(noise[i : i + 1])[0]
        assert (alone.int() - samples[i].int()).abs().max() <= 1  # a sum in another order may round differently


def test_the_picture_is_a_grid_of_eight_by_eight_samples_of_the_newest_generator(memory: GenerativeMemory):
    samples = generate(memory.gan.generator, torch.randn(64, LATENT, generator=seeded(0)))
    picture = memory.preview()
    assert picture.shape == (3, 8 * 16, 8 * 16)
    assert picture.dtype == torch.uint8
    for i in range(64):
        row, column = 16 * (i // 8), 16 * (i % 8)
        assert torch.equal(picture[:, row : row + 16, column : column + 16], samples[i])
    assert torch.equal(memory.preview(), picture)


def test_the_picture_after_a_task_is_still_its_own(memory: GenerativeMemory, scenario: Scenario):
    before = memory.preview()
    memory.end_task(scenario.tasks[1], seeded(0))
    assert torch.equal(memory.preview(), before)


# -- the end of a task -------------------------------------------------------------------------------------------------


def test_after_a_task_its_generator_is_kept_frozen_and_its_critic_is_gone(memory: GenerativeMemory, scenario: Scenario):
    current, counts = scenario.tasks[1].train, torch.tensor([4, 4])
    before = memory.draw(current, counts, seeded(0))
    memory.end_task(scenario.tasks[1], seeded(0))
    assert same(memory.draw(current, counts, seeded(0)), before)
    assert len(memory.generators) == 2
    assert memory.gan is None
    assert {type(m) for m in memory.modules()}.isdisjoint({nn.Conv2d, nn.LeakyReLU})  # a critic's
    assert all(name.startswith(("generators.0.", "generators.1.")) for name in memory.state_dict())
    assert not any(p.requires_grad for p in memory.parameters())


def test_training_the_next_generator_leaves_the_kept_ones_bit_for_bit(memory: GenerativeMemory, scenario: Scenario):
    memory.end_task(scenario.tasks[1], seeded(0))
    before = {name: value.clone() for name, value in memory.state_dict().items()}
    learn(memory, dataclasses.replace(scenario.tasks[0], id=2))
    after = memory.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert len(after) > len(before)
    assert not any(p.requires_grad for p in memory.parameters())


def test_kept_bytes_are_four_for_each_parameter_of_the_kept_generators(memory: GenerativeMemory, scenario: Scenario):
    a, b, c = 10, 5, 3  # 512, 256, 128 times 0.02
    one = 128 * a * 4 + 3 * a * 4 + (a * b * 4 + b) + 2 * b + (b * c * 4 + c) + 2 * c + (c * 3 * 4 + 3)
    assert GenerativeMemory(SCHEDULE, mix_real=False).kept_bytes == 0
    assert memory.kept_bytes == 4 * one  # not what is being trained
    memory.end_task(scenario.tasks[1], seeded(0))
    assert memory.kept_bytes == 2 * 4 * one
    assert memory.kept_images == 0


# -- resuming ----------------------------------------------------------------------------------------------------------


def test_a_rebuilt_memory_with_the_saved_state_gives_the_same_samples(memory: GenerativeMemory, scenario: Scenario):
    memory.end_task(scenario.tasks[1], seeded(0))
    other = GenerativeMemory(SCHEDULE, mix_real=False)
    torch.manual_seed(99)
    for _ in range(2):
        other.rebuild(scenario.image_shape, 2)
    assert not any(p.requires_grad for p in other.parameters())
    counts, current = torch.tensor([6, 6]), scenario.tasks[1].train
    wanted = memory.draw(current, counts, seeded(0))
    assert not same(other.draw(current, counts, seeded(0)), wanted)
    other.load_state_dict(memory.state_dict())
    assert same(other.draw(current, counts, seeded(0)), wanted)
    assert other.kept_bytes == memory.kept_bytes
    assert torch.equal(other.preview(), memory.preview())


def test_a_memory_killed_inside_a_task_is_rebuilt_begun_again_and_loaded(memory: GenerativeMemory, scenario: Scenario):
    other = GenerativeMemory(SCHEDULE, mix_real=False)
    other.rebuild(scenario.image_shape, 2)
    other.begin_task(scenario.tasks[1])
    other.load_state_dict(memory.state_dict())
    counts, current = torch.tensor([6, 6]), scenario.tasks[1].train
    assert same(other.draw(current, counts, seeded(0)), memory.draw(current, counts, seeded(0)))
    for name, value in other.gan.critic.state_dict().items():
        assert torch.equal(value, memory.gan.critic.state_dict()[name])


def test_to_begin_a_task_again_under_the_same_seed_is_to_begin_it_alike(scenario: Scenario):
    states = []
    for seed in (5, 5, 6):
        memory = GenerativeMemory(SCHEDULE, mix_real=False)
        torch.manual_seed(seed)
        memory.begin_task(scenario.tasks[0])
        states.append(torch.cat([value.flatten() for value in memory.state_dict().values()]))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


# -- the preparation ---------------------------------------------------------------------------------------------------


@given(iterations=st.integers(1, 1000), critic_steps=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_the_preparation_takes_the_steps_announced_in_whole_rounds(
    scenario: Scenario, iterations: int, critic_steps: int
):
    plan = dataclasses.replace(SCHEDULE, iterations=iterations, critic_steps=critic_steps)
    memory = GenerativeMemory(plan, mix_real=False)
    announced = memory.preparation_steps  # before any task has begun: for the progress bar
    memory.begin_task(scenario.tasks[0])
    phase = memory.preparation(scenario.tasks[0])
    assert announced == phase.epochs * phase.steps
    assert phase.steps % (critic_steps + 1) == 0
    turns = announced // (critic_steps + 1)  # of the generator
    assert turns == (iterations if iterations <= ROUND else math.ceil(iterations / 100) * 100)


def test_the_papers_schedule_is_two_hundred_thousand_iterations():
    plan = GanOptions(width=1, iterations=200_000, critic_steps=5, penalty_every=1, batch_size=64, lr=1e-4)
    assert GenerativeMemory(plan, mix_real=False).preparation_steps == 200_000 * 6


def test_the_preparation_trains_the_tasks_own_gan_on_its_real_images_by_plain_adam(scenario: Scenario):
    task = scenario.tasks[1]
    memory = GenerativeMemory(SCHEDULE, mix_real=False)
    memory.begin_task(task)
    phase = memory.preparation(task)
    assert phase.trainable is memory.gan
    assert phase.data is task.train
    assert phase.key == (1, "generator")
    assert phase.validate is None
    assert phase.preview().shape == (3, 128, 128)
    assert (phase.optim.weight_decay, phase.optim.clip, phase.augment.active) == (0, 0, False)
    assert (phase.optim.lr, phase.optim.batch_size, phase.optim.betas) == (1e-3, 8, (0.5, 0.9))
    assert phase.optim.schedule == "constant"


def test_a_task_of_a_single_image_can_be_learnt(scenario: Scenario):
    one = scenario.tasks[0].train.batch(slice(0, 1))
    task = dataclasses.replace(scenario.tasks[0], train=Examples(*one))
    memory = GenerativeMemory(dataclasses.replace(SCHEDULE, batch_size=1), mix_real=False)
    learn(memory, task)
    assert memory.sample(0, 3, seeded(0))[0].shape == (3, *SHAPE)


def test_a_mean_of_weights_makes_the_images_during_the_task_and_after_it(scenario: Scenario):
    memory = GenerativeMemory(dataclasses.replace(SCHEDULE, average=0.5))
    learn(memory, scenario.tasks[0])
    gan = memory.gan
    assert gan is not None
    assert gan.mean is not None
    noise = torch.randn(4, LATENT, generator=seeded(0))
    mean, last = generate(gan.mean, noise), generate(gan.generator, noise)
    assert not torch.equal(mean, last)
    assert torch.equal(memory.sample(0, 4, seeded(0))[0], mean)
    memory.end_task(scenario.tasks[0], seeded(0))
    assert torch.equal(memory.sample(0, 4, seeded(0))[0], mean)
    assert memory.kept_bytes == sum(p.numel() for p in gan.generator.parameters()) * 4  # one of the two, not both
