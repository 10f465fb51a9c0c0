"""Episodic memory (paper, Section 3.3): exactly C images in all, as uint8, shared equally by the tasks seen so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lockgate.layers.buffers import take_sizes
from lockgate.memory.base import Memory
from lockgate.types import Batch, Examples, Task

SHOWN = 16
"""Images of each task in the picture of a memory."""


class EpisodicMemory(Memory):
    """At the end of task t each task keeps m = C / t images; those of past tasks are drawn from what was kept."""

    x: Tensor
    y: Tensor
    task: Tensor

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.register_buffer("x", torch.empty(0, dtype=torch.uint8))  # (N, C, H, W)
        self.register_buffer("y", torch.empty(0, dtype=torch.int64))  # (N,), label within its task
        self.register_buffer("task", torch.empty(0, dtype=torch.int64))  # (N,), in order

    @property
    def examples(self) -> Examples:
        """What is kept."""
        return Examples(self.x, self.y, self.task)

    def draw(self, current: Examples, counts: Tensor, rng: torch.Generator) -> Examples:
        """Kept images of past tasks; of the current task any, or once some of it are kept, those."""
        newest = len(counts) - 1
        now = newest if not bool((self.task == newest).any()) else None
        parts = []
        for task, count in enumerate(counts.tolist()):
            source = current if task == now else self.examples
            index = torch.arange(len(current)) if task == now else torch.nonzero(self.task.cpu() == task).flatten()
            if not len(index):  # the buffer is smaller than the number of tasks
                continue
            chosen = index[torch.randint(len(index), (count,), generator=rng)]
            parts.append(Examples(*(part.cpu() for part in source.batch(chosen.to(source.y.device)))))
        return Examples.union(parts)

    def all(self, current: Examples) -> Examples:
        """Everything kept, and the current task's real images."""
        return Examples.union([self.stored(), current]) if len(self.y) else current

    def stored(self) -> Examples:
        """Everything kept."""
        return Examples(self.x.cpu(), self.y.cpu(), self.task.cpu())

    def end_task(self, task: Task, rng: torch.Generator) -> None:
        """Shrink what is kept of past tasks to its new share, and keep a random share of ``task``."""
        held = [torch.nonzero(self.task.cpu() == t).flatten() for t in range(task.id)]
        sizes = shares([*(len(index) for index in held), self.available(task)], self.capacity)
        labels = self.y.cpu()
        kept = [index[self.chosen(labels[index], size, rng)] for index, size in zip(held, sizes, strict=False)]
        parts = [self.examples.batch(index.to(self.y.device)) for index in kept]
        new = self.drawn(task, sizes[-1], rng)
        device = self.y.device
        self.x = torch.cat([*(part.x for part in parts), new.x.to(device)])
        self.y = torch.cat([*(part.y for part in parts), new.y.to(device)])
        self.task = torch.cat([*(part.task for part in parts), new.task.to(device)])

    def available(self, task: Task) -> int:
        """How many images of ``task`` could be kept."""
        return len(task.train)

    def drawn(self, task: Task, count: int, rng: torch.Generator) -> Batch:
        """The ``count`` images of ``task`` that are kept of it, as it ends."""
        return task.train.batch(self.chosen(task.train.y, count, rng))

    def chosen(self, y: Tensor, count: int, rng: torch.Generator) -> Tensor:
        """Which ``count`` of the images of a task, of labels ``y`` (N,), it keeps, in their order: any."""
        return torch.randperm(len(y), generator=rng)[:count].sort().values

    def shown(self) -> Tensor | None:
        """A row of images for each task; white where it has fewer."""
        if not len(self.y):
            return None
        blank = self.x.new_full((SHOWN, *self.x.shape[1:]), 255)
        rows = [torch.cat([self.x[self.task == t][:SHOWN], blank])[:SHOWN] for t in sorted(set(self.task.tolist()))]
        return torch.cat([torch.cat(list(row), dim=2) for row in rows], dim=1)

    @property
    def kept_bytes(self) -> int:
        """Pixels, one byte each."""
        return self.x.numel()

    @property
    def kept_images(self) -> int:
        """Images kept."""
        return len(self.y)

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        # The buffers take the size of what is loaded: it changes when a task ends.
        take_sizes(self, state, prefix, ("x", "y", "task"))
        super()._load_from_state_dict(state, prefix, *args)


def shares(available: Sequence[int], capacity: int) -> list[int]:
    """How many images each task keeps: together as many of ``capacity`` as there are, as equal as can be.

    A task with fewer images than its share keeps them all, and the rest is shared by the others. What is left over by
    division goes to the earliest tasks, one each.
    """
    sizes = [0] * len(available)
    left = min(capacity, sum(available))
    while left:
        wanting = [t for t, size in enumerate(sizes) if size < available[t]]
        each = left // len(wanting)
        for t in wanting if each else wanting[:left]:
            sizes[t] += min(available[t] - sizes[t], max(each, 1))
        left = min(capacity, sum(available)) - sum(sizes)
    return sizes
