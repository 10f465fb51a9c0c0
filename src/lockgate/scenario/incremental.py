"""Tasks that come one at a time: the new one whole, the past ones by the few images that were kept of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lockgate.data.arrays import Arrays
from lockgate.errors import DataError
from lockgate.scenario.rows import examples_of
from lockgate.scenario.split import Scenario, hold_out
from lockgate.training.seeding import generator
from lockgate.types import Examples, Task

FEWEST = 3
"""Images that a class needs: one to learn from, one to select by, one to test on."""
UNEQUAL = 1.5
"""From this ratio of the largest to the smallest class on, classes are weighted in the loss."""


def past_tasks(past: Sequence[tuple[tuple[str, ...], Examples]]) -> tuple[Task, ...]:
    """Tasks learnt before, from the names of their classes and the images kept of them: those are their test images."""
    tasks: list[Task] = []
    start = 0
    for names, kept in past:
        none = kept.take(torch.zeros(len(kept), dtype=torch.bool))
        tasks.append(Task(len(tasks), tuple(range(start, start + len(names))), none, none, kept))
        start += len(names)
    return tuple(tasks)


def grow(
    past: Sequence[tuple[tuple[str, ...], Examples]],
    data: Arrays,
    names: tuple[str, ...],
    held_out: float,
    probes: int,
    seed: int,
) -> Scenario:
    """The tasks of ``past`` (names of their classes, images kept of them) and one more, made of ``data``.

    A share ``held_out`` of every class selects the epoch and decides which filters are relevant, another such share
    tests; ``probes`` of the test images, the classes in turn, are the ones to keep.
    """
    known = tuple(name for before, _ in past for name in before)
    classes = tuple(range(len(known), len(known) + len(names)))
    new = _new(len(past), classes, data, names, held_out, probes, seed)
    channels, height, width = data.x.shape[1:]
    return Scenario((*past_tasks(past), new), (*known, *names), (channels, height, width))


def _new(
    task: int, classes: tuple[int, ...], data: Arrays, names: tuple[str, ...], held_out: float, probes: int, seed: int
) -> Task:
    y = torch.from_numpy(data.y)
    sizes = torch.bincount(y, minlength=len(names)).tolist()
    few = [f"{name} ({size})" for name, size in zip(names, sizes, strict=True) if size < FEWEST]
    if few:
        raise DataError(
            f"Too few images of {', '.join(few)}; wanted at least {FEWEST} of every class: to learn from, to select by "
            "and to test on. Add images, or leave the class out."
        )
    whole = examples_of(data.x, y, task)
    tested = hold_out(y, held_out, generator(seed, "test", task))
    rest, test = whole.take(~tested), whole.take(tested)
    held = hold_out(rest.y, held_out, generator(seed, "held out", task))
    train = rest.take(~held)
    kept = Examples(*test.batch(in_turn(test.y, probes, generator(seed, "probes", task))))
    return Task(task, classes, train, rest.take(held), test, probes=kept, weights=class_weights(sizes))


def in_turn(y: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """Indices of ``count`` examples (or all) of labels ``y``, at random, the classes in turn."""
    order = torch.randperm(len(y), generator=rng)
    place = torch.empty_like(order)  # of each example among those of its class
    for label in set(y.tolist()):
        mine = order[y[order] == label]
        place[mine] = torch.arange(len(mine))
    return order[torch.argsort(place[order], stable=True)][:count]


def class_weights(sizes: Sequence[int]) -> tuple[float, ...]:
    """What an image of each class counts, so that classes count the same; empty where their sizes differ little."""
    if max(sizes) < UNEQUAL * min(sizes):
        return ()
    return tuple(sum(sizes) / (len(sizes) * size) for size in sizes)
