"""Labelled generators: what they make, what they weigh, and how they come back from a checkpoint."""

from __future__ import annotations

import torch
from tests.support import tiny

from lockgate.memory.conditional import ConditionalMemory
from lockgate.memory.gan.acgan import LABEL
from lockgate.memory.gan.options import GanOptions
from lockgate.runs.build import build_scenario

PLAN = GanOptions(width=0.02, iterations=3, critic_steps=2, penalty_every=1, batch_size=8, lr=1e-3)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def two_tasks() -> ConditionalMemory:
    """One task remembered, one whose generator is still in training."""
    torch.manual_seed(0)
    memory = ConditionalMemory(PLAN)
    first, second = build_scenario(tiny.experiment("cgen")).tasks
    memory.begin_task(first)
    memory.end_task(first, seeded(0))
    memory.begin_task(second)
    return memory


def test_images_are_those_of_the_label_they_carry():
    memory = two_tasks()
    for task in (0, 1):
        x, y = memory.sample(task, 40, seeded(3))
        assert set(y.tolist()) == {0, 1}
        assert x.dtype == torch.uint8
        torch.randint(2, (40,), generator=(again := seeded(3)))  # the labels are drawn first
        assert torch.equal(memory.images(task, y, again), x)
        assert not torch.equal(memory.images(task, 1 - y, seeded(4)), memory.images(task, y, seeded(4)))


def test_draw_gives_labels_and_tasks_and_nothing_real():
    memory = two_tasks()
    current = build_scenario(tiny.experiment("cgen")).tasks[1].train
    drawn = memory.draw(current, torch.tensor([5, 30]), seeded(1))
    assert drawn.task.tolist() == [0] * 5 + [1] * 30
    assert set(drawn.y.tolist()) == {0, 1}
    real = {image.numpy().tobytes() for image in current.x}
    assert not real & {image.numpy().tobytes() for image in drawn.x}


def test_the_picture_has_a_class_a_row():
    memory = two_tasks()
    picture = memory.preview()
    side = picture.shape[1] // 8
    y = torch.tensor([row % 2 for row in range(8) for _ in range(8)])
    samples = memory.images(1, y, seeded(0))
    for i in (0, 7, 8, 63):
        row, column = side * (i // 8), side * (i % 8)
        assert torch.equal(picture[:, row : row + side, column : column + side], samples[i])


def test_bytes_are_parameters_of_the_generators_labels_included():
    memory = two_tasks()
    assert memory.kept_bytes == 4 * sum(p.numel() for p in memory.generators[0].parameters())
    full = ConditionalMemory(GanOptions(1.0, 1, 1, 1, 2, 1e-4))
    for _ in range(5):
        full.rebuild((3, 32, 32), 2)
    assert full.kept_bytes == 5 * 4 * (1_731_203 + 2 * LABEL)


def test_a_fresh_memory_takes_the_state_and_makes_the_same_images():
    memory = two_tasks()
    other = ConditionalMemory(PLAN)
    other.rebuild((3, 16, 16), 2)
    other.begin_task(build_scenario(tiny.experiment("cgen")).tasks[1])
    other.load_state_dict(memory.state_dict())
    for task in (0, 1):
        for ours, theirs in zip(memory.sample(task, 9, seeded(5)), other.sample(task, 9, seeded(5)), strict=True):
            assert torch.equal(ours, theirs)
