"""Class-incremental learning (paper, Section 3.3): parallel streams, a task classifier, rehearsal. Eq. 3 as a whole:

    class loss of the current head on real images of task t        log p(y|x,t)
  + task loss on a rehearsal batch, uniform over tasks 1..t        log p(t|x)
  + sparsity of the current gates                                  Eq. 5

Past streams are frozen: their features are constants, computed for a pool of rehearsal images once a task (once an
epoch where images change) and looked up in each step. A step costs one stream, whatever the number of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.config import option
from lockgate.memory.base import Memory
from lockgate.methods.base import Context
from lockgate.methods.ccgn import refit
from lockgate.methods.ccgn.method import BATCH, CCGN, CCGNOptions
from lockgate.methods.ccgn.rehearsal import Pool
from lockgate.methods.ccgn.task_classifier import TaskClassifier
from lockgate.training import distributed
from lockgate.training.augment import random_affine, random_translate
from lockgate.training.phase import Phase, evaluating
from lockgate.training.seeding import generator, spawn, spawn_seed
from lockgate.types import Batch, Examples, Losses, Task

JUDGED = 256
"""Rehearsed images that an epoch is judged on, at least: on a batch's few, its choice would be a lottery."""


@dataclass(frozen=True)
class StreamsOptions(CCGNOptions):
    """Options of the class-incremental methods."""

    inference: Literal["argmax", "joint"] = option(
        "argmax",
        "Without a task: the most likely task's head (the paper), or the most likely pair log p(t|x) + log p(y|x,t).",
    )
    targets: Literal["task", "class"] = option(
        "task", "What the task classifier tells apart: tasks (the paper), or classes, summed up by task."
    )
    hidden: int = option(64, "Hidden units of the task classifier. Paper: 64.", ge=1)
    refit: int = option(
        0,
        "Steps in which the task classifier is fitted once more after a task, when no feature changes any more; needs "
        "the seal. Paper: 0.",
        ge=0,
    )
    rehearsal: int = option(0, "Images in a rehearsal batch; 0: as many as in a batch of the task.", ge=0)
    random_translate: int = option(
        0, "Move each image that the task classifier sees by up to this many pixels. Paper: 0.", ge=0
    )
    random_affine: float = option(
        0.0,
        "Turn, stretch and shear each image that the task classifier sees by up to this much; 0.15: 9 degrees, 15 %. "
        "Paper: 0.",
        ge=0,
        lt=1,
    )


class Streams(CCGN):
    """A gated network that finds the task by itself. Sub-classes say what it remembers."""

    class_incremental = True
    options: StreamsOptions
    memory: Memory

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.task_classifier = TaskClassifier(self.options.hidden)
        self.memory = self.make_memory()
        self._pool: Pool | None = None
        self._pool_epoch = -1
        self._past_columns: Tensor | None = None  # the same for all steps of a task

    def make_memory(self) -> Memory:
        """What is kept of past tasks."""
        raise NotImplementedError

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> Examples:
        """As without a task classifier; then make room in the memory."""
        self._current = super().begin_task(task)
        self.memory.begin_task(task)
        self._pool, self._pool_epoch = None, -1
        self._pool_seed = spawn_seed()
        return self._current

    def loss(self, batch: Batch) -> Losses:
        """Eq. 3: class loss and sparsity on the task's own images, task loss on the rehearsal batch."""
        losses = super().loss(batch)
        if len(self.heads) > 1:
            losses["task"] = self.task_loss(len(batch.y))
        return losses

    def end_task(self, task: Task) -> None:
        """Lock and seal; then remember the task."""
        super().end_task(task)
        self.memory.end_task(task, spawn())
        self.memory.requires_grad_(False)
        self._pool = None

    def completion_steps(self, task: int) -> int:
        """Those of the refit: of a first task there is nothing to tell, and without the seal nothing is constant."""
        return self.options.refit if self.options.seal and task else 0

    @torch.no_grad()
    def completion(self, task: Task) -> Phase | None:
        """Fit the task classifier once more: all streams are sealed now, and what feeds it never changes again."""
        steps = self.completion_steps(len(self.heads) - 1)
        if not steps:
            return None
        x, examples = self._drawn(refit.images(steps), generator(self._pool_seed, "refit"))
        device = self.input.mean.device
        with evaluating(self), torch.autocast(device.type, enabled=False):
            target = self.target(examples, known=len(self.heads))
            features = torch.cat([self._features(part.to(device)) for part in torch.split(x, BATCH)])
        return refit.phase(task.id, self.task_classifier, self._columns(), features, target.to(device), steps)

    @property
    def inference(self) -> str:
        """The paper's argmax or the joint probability."""
        return self.options.inference

    def predict(self, x: Tensor, task: int | None) -> Tensor:
        """Logits of ``task``'s classes; without a task, log-probabilities of all classes seen, by ``inference``."""
        return self.logits(x, task) if task is not None else self.answers(x)[self.options.inference]

    def answers(self, x: Tensor) -> dict[str, Tensor]:
        """Log-probabilities (B, classes seen) of both kinds of inference."""
        return self.answers_from(self.streams(x))

    def answers_from(self, streams: list[Tensor]) -> dict[str, Tensor]:
        """As ``answers``, from features (B, F) of all streams."""
        tasks = self.task_classifier.by_task(self._classify(streams[:-1], streams[-1]))  # (B, tasks)
        classes = [head(features).log_softmax(1) for head, features in zip(self.heads, streams, strict=True)]
        joint = torch.cat([part + tasks[:, t, None] for t, part in enumerate(classes)], dim=1)
        chosen = tasks.argmax(1)
        only = [part.masked_fill((chosen != t)[:, None], float("-inf")) for t, part in enumerate(classes)]
        return {"argmax": torch.cat(only, dim=1), "joint": joint}

    # -- the task classifier -----------------------------------------------------------------------------------------

    def outputs(self, classes: int) -> int:
        """Outputs of the task classifier for a task of so many classes: one, or one for each of them."""
        return classes if self.options.targets == "class" else 1

    def target(self, examples: Examples, known: int | None = None) -> Tensor:
        """The output of the task classifier that is right for each image: its task, or its class among all seen.

        Generated images have no classes. Past tasks tell those of their own: nothing could do it better, and with the
        seal the answer never changes. The newest will, step by step, while it learns them: -1. ``known``: how many
        tasks are learnt.
        """
        if self.options.targets == "task":
            return examples.task
        y = examples.y.clone()
        for task in range(len(self.heads) - 1 if known is None else known):
            rows = torch.nonzero((y < 0) & (examples.task == task)).flatten()
            for part in torch.split(rows, BATCH):
                y[part] = self.logits(examples.x[part].to(self.input.mean.device), task).argmax(1).to(y.device)
        return torch.where(y < 0, y, y + self._first_outputs.to(y.device)[examples.task])

    @property
    def _first_outputs(self) -> Tensor:
        """Of the task classifier, for each task."""
        outputs = torch.tensor(self.task_classifier.outputs)
        return outputs.cumsum(0) - outputs

    def task_loss(self, count: int) -> Tensor:
        """Cross-entropy of the task classifier on ``count`` images, uniform over tasks.

        Gates and norms of the current stream are as in evaluation: no noise, and no statistics are moved.
        """
        count = -(-self.options.rehearsal // distributed.world_size()) or count  # of this rank
        pool = self.pool(count)
        rows = pool.rows(count if self.training else max(count, JUDGED), at_random=self.training).to(pool.x.device)
        newest = len(self.heads) - 1
        with evaluating(*self._deciding(newest)):
            current = self.backbone(self.input(pool.x[rows]), newest).features
        past, target = self._looked_up(pool, rows)
        out = self.task_classifier(past, self._columns(), current)
        if pool.nameless:
            guess = self.heads[newest](current.detach()).argmax(1) + self._first_outputs[newest]
            target = torch.where(target < 0, guess, target)
        return F.cross_entropy(out, target)

    @torch.no_grad()
    def _looked_up(self, pool: Pool, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What past streams say of some images of the pool: features and targets.

        Without the seal, past gates may open filters that are being trained: nothing is constant, all is computed.
        """
        if self.options.seal:
            return pool.past[rows], pool.target[rows]
        return self._past(pool.x[rows]), self.target(Examples(pool.x[rows], pool.y[rows], pool.task[rows]))

    def streams(self, x: Tensor, tasks: Sequence[int] | None = None) -> list[Tensor]:
        """Features (B, F) of the streams of ``tasks``; None: of all."""
        standard = self.input(x)
        return [self.backbone(standard, t).features for t in (range(len(self.heads)) if tasks is None else tasks)]

    def _classify(self, past: list[Tensor], current: Tensor) -> Tensor:
        """Outputs of the task classifier."""
        return self.task_classifier(self._open_parts(past, current), self._columns(), current)  # type: ignore[no-any-return]

    def _open(self, task: int) -> Tensor:
        """The channels of a stream's features that can be anything but zero, as an index."""
        last = list(self.gated.values())[-1]
        index = last.writes.get(task)
        return torch.arange(last.gate(task).width, device=last.weight.device) if index is None else index

    def wire(self, tasks: Iterable[int] | None = None) -> None:
        """As without a task classifier."""
        super().wire(tasks)
        self._past_columns = None

    def _columns(self) -> Tensor:
        """Which inputs of the task classifier the open channels of past streams are."""
        if self._past_columns is None:
            self._past_columns = self._find_columns()
        return self._past_columns

    def _find_columns(self) -> Tensor:
        starts = torch.tensor(self.task_classifier.inputs).cumsum(0).tolist()
        columns = [self._open(t) + (starts[t - 1] if t else 0) for t in range(len(self.heads) - 1)]
        return torch.cat(columns) if columns else torch.empty(0, dtype=torch.int64, device=self.input.mean.device)

    def _open_parts(self, past: list[Tensor], like: Tensor) -> Tensor:
        """Features of past streams at the channels they can open, side by side (B, P)."""
        parts = [features.index_select(1, self._open(t)) for t, features in enumerate(past)]
        return torch.cat(parts, dim=1) if parts else like.new_zeros(len(like), 0)

    def _deciding(self, task: int) -> list[nn.Module]:
        """Gates and norms of ``task``'s stream: what differs between training and evaluation."""
        return [*(layer.gate(task) for layer in self.gated.values()), *self.norms(task)]

    # -- rehearsal ---------------------------------------------------------------------------------------------------

    def pool(self, count: int = 0) -> Pool:
        """The images to rehearse on in this epoch, ``count`` in each step; 0: as many as the task has, in all."""
        changing = self.memory.fresh or self._augmented
        if self._pool is None or (changing and self._pool_epoch != self.epoch):
            self._pool = None  # before the next one is made: never two at a time
            self._pool, self._pool_epoch = self._make_pool(count), self.epoch
        return self._pool

    @property
    def _augmented(self) -> bool:
        return self.options.random_translate > 0 or self.options.random_affine > 0

    @torch.no_grad()
    def _make_pool(self, count: int) -> Pool:
        rng = generator(self._pool_seed, self.epoch)
        examples = self.memory.all(self._current) if not self._augmented else None
        if examples is None:
            wanted = self.steps * count * distributed.world_size() or len(
                self._current
            )  # as many as the epoch will show
            x, examples = self._drawn(wanted, rng)
        else:
            x = examples.x
        device = self.input.mean.device
        # Always in evaluation mode, and in full precision, as when it is tested.
        with torch.autocast(device.type, enabled=False):
            target = self.target(examples)
            parts = [self._past(part.to(device)) for part in torch.split(x, BATCH) if self.options.seal]
        past = torch.cat(parts) if parts else torch.empty(0, device=device)
        return Pool.of(x, examples, target, past, len(self.heads))

    def _drawn(self, wanted: int, rng: torch.Generator) -> tuple[Tensor, Examples]:
        """Images of all tasks alike, about ``wanted`` in all, as they are to be seen and as they were drawn."""
        counts = torch.full((len(self.heads),), -(-wanted // len(self.heads)))
        examples = self.memory.draw(self._current, counts, rng)
        return random_affine(
            random_translate(examples.x, self.options.random_translate, rng), self.options.random_affine, rng
        ), examples

    def _past(self, x: Tensor) -> Tensor:
        past = self.streams(x, range(len(self.heads) - 1))
        return self._open_parts(past, past[0])

    def _features(self, x: Tensor) -> Tensor:
        """Features (B, P + F) of past streams at the channels they can open, and of the newest at all."""
        *past, newest = self.streams(x)
        return torch.cat([self._open_parts(past, newest), newest], dim=1)

    # -- what the run asks -------------------------------------------------------------------------------------------

    def add_task(self, classes: int) -> None:
        """As without a task classifier, which grows too; alone, the first task has nothing to be told from."""
        super().add_task(classes)
        self._past_columns = None
        self.task_classifier.add_task(self.backbone.features, self.outputs(classes))
        self.task_classifier.requires_grad_(len(self.heads) > 1)
