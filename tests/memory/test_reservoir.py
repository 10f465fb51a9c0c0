"""The reservoir: every presentation is as likely to be kept, with the logits of its time."""

from __future__ import annotations

import torch

from lockgate.memory.reservoir import ReservoirMemory, slots
from lockgate.types import Batch


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def show(memory: ReservoirMemory, first: int, count: int, classes: int, seed: int) -> None:
    numbers = torch.arange(first, first + count)
    batch = Batch(numbers.view(-1, 1, 1, 1).to(torch.uint8), numbers % 2, torch.zeros(count, dtype=torch.int64))
    memory.offer(batch, numbers[:, None].float().expand(count, classes), rng(seed))


def test_slots_are_the_first_ones_and_then_those_drawn_one_by_one():
    uniform = torch.rand(7, generator=rng(3), dtype=torch.float64).tolist()
    wanted: dict[int, int] = {}
    for i, n in enumerate(range(2, 9)):  # two images have been seen; there are four slots
        slot = n if n < 4 else int(uniform[i] * (n + 1))
        if slot < 4:
            wanted[slot] = i
    assert slots(2, 7, 4, rng(3)) == wanted
    assert {2, 3} <= wanted.keys()


def test_what_is_kept_stays_together_and_the_buffer_fills_without_a_gap():
    memory = ReservoirMemory(10)
    memory.widen(2)
    for step in range(12):
        show(memory, 3 * step, 3, 2, step)
        assert memory.kept_images == min(10, 3 * (step + 1))
        numbers = memory.x.flatten().long()
        assert torch.equal(memory.y, numbers % 2)
        assert torch.equal(memory.logits, numbers[:, None].float().expand(-1, 2))
    assert int(memory.seen) == 36
    memory.widen(4)
    assert memory.logits.shape == (10, 4)
    assert not memory.logits[:, 2:].any()
    assert memory.kept_bytes == 10 + 4 * 40
    other = ReservoirMemory(10)
    other.load_state_dict(memory.state_dict())
    assert all(torch.equal(value, memory.state_dict()[name]) for name, value in other.state_dict().items())


def test_each_of_many_is_kept_as_often():
    kept = torch.zeros(40)
    for seed in range(600):
        memory = ReservoirMemory(8)
        memory.widen(1)
        for step in range(5):
            show(memory, 8 * step, 8, 1, 1000 * seed + step)
        kept[memory.x.flatten().long()] += 1
    assert abs(kept / 600 - 8 / 40).max() < 0.08  # five standard deviations
