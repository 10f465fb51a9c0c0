"""What a task classifier is rehearsed on: images of all tasks, with what past streams make of them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from lockgate.memory.base import Memory
from lockgate.methods.ccgn.streams import Streams
from lockgate.methods.ccgn.targets import class_targets, named
from lockgate.methods.network import MultiHeadNetwork
from lockgate.training.augment import augment
from lockgate.training.phase import eval_batch
from lockgate.training.seeding import generator
from lockgate.types import Examples

MOST = 4
"""Of so many times the images that are wanted, no more are taken."""
VALIDATED = 256
"""Rehearsed images that an epoch is validated on, at least: on a batch's few, its choice would be a lottery."""


class Pool(NamedTuple):
    """Images to rehearse on, with what past streams make of them."""

    x: Tensor  # (N, C, H, W) uint8, ordered by task
    y: Tensor  # (N,) int64, label within its task; -1: generated, and not named yet
    task: Tensor  # (N,) int64
    target: Tensor  # (N,) int64, output of the task classifier; -1: not known yet
    nameless: bool  # whether some images are not named yet
    past: Tensor  # (N, P), features of past streams at the channels they can open
    starts: Tensor  # (tasks,), the first image of each task
    sizes: Tensor  # (tasks,), images of each task

    @classmethod
    def of(cls, x: Tensor, drawn: Examples, target: Tensor, past: Tensor, tasks: int) -> Pool:
        """Of the images ``drawn``, as they are to be seen (``x``), on the device of ``past``."""
        sizes = torch.bincount(drawn.task, minlength=tasks)
        nameless = bool((drawn.y < 0).any())
        x, y, task, target = (part.to(past.device) for part in (x, drawn.y, drawn.task, target))
        return cls(x, y, task, target, nameless, past, sizes.cumsum(0) - sizes, sizes)

    def rows(self, count: int, at_random: bool) -> Tensor:
        """Rows of a rehearsal batch: tasks in turn, images at random; or else always the same rows."""
        held = torch.nonzero(self.sizes).flatten()  # a tiny buffer holds nothing of some tasks
        turn, luck = torch.zeros(()), torch.arange(count) / count
        if at_random:
            turn, luck = torch.randint(len(held), ()), torch.rand(count)
        task = held[(torch.arange(count) + turn.long()) % len(held)]
        return self.starts[task] + (luck * self.sizes[task]).long().clamp(max=self.sizes[task] - 1)


class Copies(NamedTuple):
    """Images of all tasks, some of them several times."""

    x: Tensor  # (N, C, H, W) uint8, as they are to be seen
    examples: Examples  # as they were stored or drawn
    image: Tensor  # (N,), rows of the same number are of the same image


class Rehearsal:
    """Draws from a memory and keeps what was drawn: for a task, or for an epoch where images change."""

    def __init__(self, network: MultiHeadNetwork, streams: Streams, memory: Memory) -> None:
        self.network, self.streams, self.memory = network, streams, memory
        self._pool: Pool | None = None
        self._epoch = -1

    def begin_task(self, current: Examples, seed: int) -> None:
        """``current`` are the images of the task that begins."""
        self.current, self.seed = current, seed
        self.end_task()

    def end_task(self) -> None:
        """Nothing is rehearsed any more."""
        self._pool, self._epoch = None, -1

    def pool(self, epoch: int, wanted: int) -> Pool:
        """The images to rehearse on in ``epoch``: about ``wanted``, where they are drawn anew."""
        changing = self.memory.fresh or self.network.augment.active
        if self._pool is None or (changing and self._epoch != epoch):
            self._pool = None  # before the next one is made: never two at a time
            self._pool, self._epoch = self._make(epoch, wanted), epoch
        return self._pool

    @torch.no_grad()
    def _make(self, epoch: int, wanted: int) -> Pool:
        examples = None if self.network.augment.active else self.memory.all(self.current)
        if examples is None:
            x, examples = self.draw(wanted, generator(self.seed, epoch))
        else:
            x = examples.x
        device, options = self.network.input.mean.device, self.network.options
        # Past streams are always in evaluation mode; in full precision too, as when they are tested.
        with torch.autocast(device.type, enabled=False):
            if options.companion and options.seal:  # without the seal names could change before a run is resumed
                examples = Examples(examples.x, named(self.network, examples, self.tasks - 1), examples.task)
            target = self.targets(examples, self.tasks - 1)
            batches = torch.split(x, eval_batch(x.shape)) if options.seal else ()
            parts = [self.streams.past(part.to(device)) for part in batches]
        past = torch.cat(parts) if parts else torch.empty(0, device=device)
        return Pool.of(x, examples, target, past, self.tasks)

    def draw(self, wanted: int, rng: torch.Generator) -> tuple[Tensor, Examples]:
        """Images of all tasks alike, about ``wanted`` in all, as they are to be seen and as they were drawn."""
        examples = self.memory.draw(self.current, torch.full((self.tasks,), -(-wanted // self.tasks)), rng)
        return augment(examples.x, self.network.augment, rng), examples

    def copies(self, wanted: int, rng: torch.Generator) -> Copies:
        """About ``wanted`` images of tasks that have ended: each that is stored as often as any other, varied.

        The first time it is as it is. Where nothing varies it is there once; where nothing is stored, all are new.
        """
        stored = self.memory.stored()
        if stored is None:
            x, examples = self.draw(wanted, rng)
            return Copies(x, examples, torch.arange(len(x)))
        if len(stored) > MOST * wanted:
            stored = Examples(*stored.batch(torch.randperm(len(stored), generator=rng)[: MOST * wanted].sort().values))
        times = max(1, wanted // max(1, len(stored))) if self.network.augment.active else 1
        varied = [augment(stored.x, self.network.augment, rng) for _ in range(times - 1)]
        image = torch.arange(len(stored)).repeat(times)
        return Copies(torch.cat([stored.x, *varied]), Examples(*stored.batch(image)), image)

    def targets(self, examples: Examples, known: int) -> Tensor:
        """The output of the task classifier that is right for each image, (N,); ``known``: how many tasks are learnt.

        -1: not known yet, of a generated image of the task that is being learnt.
        """
        return examples.task if self.network.options.targets == "task" else class_targets(self.network, examples, known)

    @torch.no_grad()
    def looked_up(self, pool: Pool, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What past streams make of some images of the pool: features (B, P) and targets (B,).

        Without the seal, past gates may open filters that are being trained: nothing is constant, all is computed.
        """
        if self.network.options.seal:
            return pool.past[rows], pool.target[rows]
        x = pool.x[rows]
        return self.streams.past(x), self.targets(Examples(x, pool.y[rows], pool.task[rows]), self.tasks - 1)

    @property
    def tasks(self) -> int:
        """How many there are, the current one included."""
        return len(self.network.heads)
