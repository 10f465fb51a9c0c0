"""Equal shares of tasks, and within a task of its classes."""

from __future__ import annotations

import torch

from lockgate.memory.balanced import BalancedMemory
from lockgate.types import Examples, Task


def a_task(number: int, sizes: list[int]) -> Task:
    y = torch.cat([torch.full((size,), label) for label, size in enumerate(sizes)])
    x = torch.arange(len(y)).view(-1, 1, 1, 1).to(torch.uint8) + 50 * number
    examples = Examples(x, y, torch.full((len(y),), number))
    return Task(number, tuple(range(len(sizes))), examples, examples, examples)


def counts(memory: BalancedMemory) -> dict[tuple[int, int], int]:
    pairs = list(zip(memory.task.tolist(), memory.y.tolist(), strict=True))
    return {pair: pairs.count(pair) for pair in sorted(set(pairs))}


def test_classes_of_a_task_keep_as_many_images_as_each_other_worked_by_hand():
    memory, rng = BalancedMemory(11), torch.Generator().manual_seed(0)
    memory.end_task(a_task(0, [20, 4, 20]), rng)
    assert counts(memory) == {(0, 0): 4, (0, 1): 4, (0, 2): 3}  # 11 = 3 * 3, and one more of the first two
    first = set(memory.x.flatten().tolist())
    memory.end_task(a_task(1, [1, 20]), rng)
    # 6 of the first task (2 each), 5 of the second: the one there is of its first class, and 4 of its other
    assert counts(memory) == {(0, 0): 2, (0, 1): 2, (0, 2): 2, (1, 0): 1, (1, 1): 4}
    kept = memory.x.flatten().tolist()
    assert len(set(kept)) == 11
    assert set(kept[:6]) <= first, "what is kept of the past was kept before"


def test_a_buffer_smaller_than_the_tasks_keeps_what_it_can():
    memory, rng = BalancedMemory(1), torch.Generator().manual_seed(0)
    for number in range(3):
        memory.end_task(a_task(number, [3, 3]), rng)
        assert memory.kept_images == 1
