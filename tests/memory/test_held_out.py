"""Images that were held out of training are remembered first, and forgotten last."""

from __future__ import annotations

import torch

from lockgate.memory.held_out import HeldOutMemory
from lockgate.types import Examples, Task


def images(number: int, first: int, sizes: list[int]) -> Examples:
    y = torch.cat([torch.full((size,), label) for label, size in enumerate(sizes)])
    return Examples((first + torch.arange(len(y))).view(-1, 1, 1, 1).to(torch.uint8), y, torch.full((len(y),), number))


def a_task(number: int, train: list[int], val: list[int]) -> Task:
    held = images(number, 100 + 50 * number, val)
    return Task(number, tuple(range(len(train))), images(number, 50 * number, train), held, held)


def counts(memory: HeldOutMemory) -> dict[tuple[int, int, bool], int]:
    """How many there are by task, class, and whether they were held out."""
    held = (memory.x.flatten() >= 100).tolist()
    kept = list(zip(memory.task.tolist(), memory.y.tolist(), held, strict=True))
    return {one: kept.count(one) for one in sorted(set(kept))}


def test_held_out_images_come_first_and_training_images_fill_up_worked_by_hand():
    memory, rng = HeldOutMemory(12), torch.Generator().manual_seed(0)
    memory.end_task(a_task(0, [20, 20], [4, 8]), rng)
    assert counts(memory) == {(0, 0, False): 2, (0, 0, True): 4, (0, 1, True): 6}
    before = memory.x.flatten().tolist()
    memory.end_task(a_task(1, [1, 20], [0, 20]), rng)
    # six of each task, three of each class; of the second's first class there is but one, and not held out
    assert counts(memory) == {(0, 0, True): 3, (0, 1, True): 3, (1, 0, False): 1, (1, 1, True): 5}
    kept = memory.x[memory.task == 0].flatten().tolist()
    assert [image for image in before if image in kept] == kept, "kept before, in the same order"


def test_which_of_the_held_out_images_are_kept_is_drawn():
    found = set()
    for seed in range(6):
        memory = HeldOutMemory(2)
        memory.end_task(a_task(0, [20, 20], [20, 20]), torch.Generator().manual_seed(seed))
        found.add(tuple(memory.x.flatten().tolist()))
    assert len(found) > 1


def test_a_buffer_smaller_than_the_tasks_keeps_what_it_can():
    memory, rng = HeldOutMemory(1), torch.Generator().manual_seed(0)
    for number in range(3):
        memory.end_task(a_task(number, [3, 3], [3, 3]), rng)
        assert memory.kept_images == 1
