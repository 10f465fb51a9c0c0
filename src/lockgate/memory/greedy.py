"""The greedy sampler of GDumb (Prabhu, Torr and Dokania, ECCV 2020, Algorithm 1): a buffer balanced by class.

for each arriving (x, y), with k slots and the classes Y so far:
    if y is new, or fewer than k / |Y| images of y are kept:
        if the buffer is full: drop a random image of the largest class
        keep (x, y)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lockgate.memory.episodic import EpisodicMemory
from lockgate.types import Examples


class GreedyMemory(EpisodicMemory):
    """At most C images, equally many of each class as far as they arrived."""

    def take(self, arriving: Examples, rng: torch.Generator) -> None:
        """Show the sampler the images of a task, one by one in a random order."""
        before = self.kept_images
        new = Examples(*arriving.batch(torch.randperm(len(arriving), generator=rng)))
        both = self.all(new)
        classes = list(zip(both.task.tolist(), both.y.tolist(), strict=True))
        kept = greedy(classes[:before], classes[before:], self.capacity, rng)
        self.x, self.y, self.task = (part.to(self.y.device) for part in both.batch(torch.tensor(kept)))


def greedy(kept: Sequence[object], arriving: Sequence[object], capacity: int, rng: torch.Generator) -> list[int]:
    """Algorithm 1 on classes: which of ``kept`` and then ``arriving`` are held in the end, as sorted positions."""
    held: dict[object, list[int]] = {}
    for position, y in enumerate(kept):
        held.setdefault(y, []).append(position)
    total = len(kept)
    for position, y in enumerate(arriving, len(kept)):
        if y in held and len(held[y]) >= capacity / len(held):
            continue
        if total < capacity:
            total += 1
        else:
            largest = held[max(held, key=lambda c: len(held[c]))]
            largest.pop(int(torch.randint(len(largest), (), generator=rng)))
        held.setdefault(y, []).append(position)
    return sorted(position for positions in held.values() for position in positions)
