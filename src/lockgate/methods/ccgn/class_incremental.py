"""Class-incremental learning (paper, Section 3.3): parallel streams, a task classifier, rehearsal. Eq. 3 as a whole:

    class loss of the current head on real images of task t        log p(y|x,t)
  + task loss on a rehearsal batch, uniform over tasks 1..t        log p(t|x)
  + sparsity of the current gates                                  Eq. 5

Past streams are frozen: their features are constants, computed for a pool of rehearsal images once a task (once an
epoch where images change) and looked up in each step. A step costs one stream, whatever the number of tasks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.memory.base import Memory
from lockgate.methods.base import Context
from lockgate.methods.ccgn.companion import Companion, among_all, asked
from lockgate.methods.ccgn.gating import as_in_evaluation
from lockgate.methods.ccgn.method import CCGN
from lockgate.methods.ccgn.options import ClassIncrementalOptions
from lockgate.methods.ccgn.readout import IMAGES, ReadOut, read, side_by_side
from lockgate.methods.ccgn.rehearsal import VALIDATED, Pool, Rehearsal
from lockgate.methods.ccgn.streams import Streams
from lockgate.methods.ccgn.targets import class_targets, first_classes
from lockgate.methods.ccgn.task_classifier import TaskClassifier, by_task, for_classes
from lockgate.methods.network import MultiHeadNetwork
from lockgate.methods.protocols import TaskReport
from lockgate.training import distributed
from lockgate.training.phase import eval_batch, evaluating
from lockgate.training.seeding import generator, spawn, spawn_seed
from lockgate.types import Batch, Examples, Losses, Task


class ClassIncremental(CCGN):
    """A gated network that finds the task by itself. Sub-classes say what it remembers."""

    version: ClassVar[int] = 9
    without_budget: ClassVar[int] = 8
    """4: read-out and task classifier answer together. 5: it reads the most telling inputs; a companion. 6: streams
    begin as a companion. 7: statistics of images as they are. 8: where there is a read-out the task classifier
    has no say. 9: CCGN's 6. Before that, those of CCGN."""
    class_incremental = True
    rehearsed = True
    options: ClassIncrementalOptions
    memory: Memory

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.inference: str = self.options.inference
        self.task_classifier = TaskClassifier(self.options.hidden)
        self.memory = self.make_memory()
        self.readout = ReadOut(self.options.unasked) if self.options.readout == "ridge" else None
        self._streams = Streams(self, self.task_classifier)
        self.rehearsal = Rehearsal(self, self._streams, self.memory)
        self.register_load_state_dict_post_hook(lambda module, _: module._streams.changed())  # type: ignore[no-untyped-call]

    def make_memory(self) -> Memory:
        """What is kept of past tasks."""
        raise NotImplementedError

    # -- hooks -------------------------------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> Examples:
        """Grow, and make room in the memory."""
        current = super().begin_task(task)
        self.memory.begin_task(task)
        self.rehearsal.begin_task(current, spawn_seed())
        return current

    def loss(self, batch: Batch) -> Losses:
        """Eq. 3: class loss and sparsity on the task's own images, task loss on the rehearsal batch."""
        losses = super().loss(batch)
        if len(self.heads) > 1:
            losses["task"] = self.task_loss(len(batch.y))
        return losses

    def end_task(self, task: Task) -> None:
        """Lock and seal; then remember the task."""
        super().end_task(task)
        if self.options.seal:
            self._streams.forget_shut(task.id)
        self.memory.end_task(task, spawn())
        self.memory.requires_grad_(False)
        self.rehearsal.end_task()
        if self.readout is not None and len(self.heads) > 1:
            _fit(self.readout, self)

    def predict(self, x: Tensor, task: int | None) -> Tensor:
        """Logits of ``task``'s classes; without a task, log-probabilities of all classes seen, by ``inference``."""
        return self.logits(x, task) if task is not None else self.answers(x)[self.inference]

    def report(self) -> TaskReport:
        """As with the task given, and how the read-out was fitted."""
        fit = None if self.readout is None else self.readout.last
        return dataclasses.replace(super().report(), notes=[] if fit is None else [fit.text()])

    # -- answers without the task ------------------------------------------------------------------------------------

    def streams(self, x: Tensor, tasks: Sequence[int] | None = None) -> list[Tensor]:
        """Features (B, F) of the streams of ``tasks``, and what a read-out reads of them; None: of all."""
        tasks = range(len(self.heads)) if tasks is None else tasks
        if self.readout is None:
            return self._streams.features(x, tasks)
        standard = self.input(x)
        return [torch.cat(read(self.backbone, standard, t), dim=1) for t in tasks]

    def answers(self, x: Tensor) -> dict[str, Tensor]:
        """Log-probabilities (B, classes seen) of both kinds of inference."""
        return self.answers_from(self.streams(x), x)

    def answers_from(self, streams: list[Tensor], x: Tensor) -> dict[str, Tensor]:
        """As ``answers`` for images ``x``, from what ``streams`` gave for all tasks."""
        features, logits, inputs = self.inputs_of(streams)
        within, sizes = [part.log_softmax(1) for part in logits], [part.shape[1] for part in logits]  # log p(y|x,t)
        if self.readout is not None and self.readout.fitted:
            told = self.readout(inputs)  # log p(y|x); it has read the heads
            tasks, unsure = by_task(told, sizes), self.readout.unsure(told)
        else:
            tasks = self.task_classifier.by_task(self._streams.classify(features))  # log p(t|x)
            told = for_classes(tasks, sizes) + torch.cat(within, dim=1)
            unsure = torch.ones_like(tasks[:, 0], dtype=torch.bool)
        if self.companion is not None and len(self.heads) > 1:
            told = asked(self.companion, self.input(x), told, unsure)
            tasks = by_task(told, sizes)
        chosen = tasks.argmax(1)
        only = [part.masked_fill((chosen != t)[:, None], float("-inf")) for t, part in enumerate(within)]
        return {"argmax": torch.cat(only, dim=1), "joint": told.log_softmax(1)}

    def inputs_of(self, streams: list[Tensor]) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Of what ``streams`` gave for all tasks: features and logits of each, and what a read-out takes of all."""
        features, read = side_by_side(streams, feature_widths(self))
        logits = [head(part) for head, part in zip(self.heads, features, strict=True)]
        return features, logits, torch.cat([read, *logits], dim=1)

    @property
    def finder_macs(self) -> list[tuple[int, int]]:
        """Multiply-accumulates of what finds the task, when there were 1, 2, ... tasks; and as the paper counts.

        A companion counts as often as it was asked about the images that the read-out was judged by.
        """
        read, asks = ([], []) if self.readout is None else (self.readout.macs, self.readout.asks.tolist())
        companion = (0, 0) if self.companion is None else self.companion.macs(self.image_shape)
        found = []
        for t, cost in enumerate(self.task_classifier.macs):  # read-out: not yet of a task that is being learnt
            share = 0.0 if not t else asks[t] if t < len(asks) else 1.0
            own = read[t] if 0 < t < len(read) else cost
            found.append((own + round(share * companion[0]), round(share * companion[1])))
        return found

    # -- the task classifier -----------------------------------------------------------------------------------------

    def add_task(self, classes: int) -> None:
        """The task classifier grows too; alone, the first task has nothing to be told from."""
        super().add_task(classes)
        self._streams.changed()
        self.task_classifier.add_task(self.backbone.features, classes if self.options.targets == "class" else 1)
        self.task_classifier.requires_grad_(len(self.heads) > 1)
        if self.readout is not None:
            self.readout.add_task(classes)

    def task_loss(self, count: int) -> Tensor:
        """- log p(t|x) of Eq. 3, on ``count`` images, uniform over tasks.

        Gates and norms of the current stream are as in evaluation: no noise, and no statistics are moved.
        """
        count = -(-self.options.rehearsal // distributed.world_size()) or count  # of this rank
        pool = self.pool(count)
        rows = pool.rows(count if self.training else max(count, VALIDATED), at_random=self.training).to(pool.x.device)
        newest = len(self.heads) - 1
        with as_in_evaluation(self.backbone, newest):
            current = self.backbone(self.input(pool.x[rows]), newest).features
        past, target = self.rehearsal.looked_up(pool, rows)
        out = self.task_classifier(past, self._streams.columns(), current)
        if pool.nameless and self.options.targets == "class":
            guess = self.heads[newest](current.detach()).argmax(1) + first_classes(self)[newest]
            target = torch.where(target < 0, guess, target)
        return F.cross_entropy(out, target)

    def companion_loss(self, companion: Companion, batch: Batch) -> Tensor:
        """Of the task's own images among its classes, and of as many rehearsed ones among all classes seen."""
        if len(self.heads) == 1:
            return super().companion_loss(companion, batch)
        pool = self.pool(self.options.rehearsal or len(batch.y))
        rows = pool.rows(len(batch.y), at_random=True).to(pool.x.device)
        new, rehearsed = companion.logits(self.input(batch.x), self.input(pool.x[rows]))
        y, task = pool.y[rows], pool.task[rows]
        if not pool.nameless:
            among = F.cross_entropy(rehearsed, y + first_classes(self).to(y.device)[task])
        else:
            among = among_all(rehearsed, y, task, [entry["classes"] for entry in self.structure()])
        return self.cross_entropy(new, batch.y) + among

    def pool(self, count: int = 0) -> Pool:
        """The images to rehearse on in this epoch, ``count`` in each step; 0: as many as the task has, in all."""
        wanted = self.steps * count * distributed.world_size() or len(self.rehearsal.current)
        return self.rehearsal.pool(self.epoch, wanted)


@torch.no_grad()
def _fit(readout: ReadOut, learner: ClassIncremental) -> None:
    """All streams are sealed now: fit the read-out to what the memory has of all tasks."""
    drawn = learner.rehearsal.copies(IMAGES, generator(learner.rehearsal.seed, "readout"))
    device = learner.input.mean.device
    with evaluating(learner), torch.autocast(device.type, enabled=False):
        y = class_targets(learner, drawn.examples, known=len(learner.heads))
        inputs = []  # on the CPU, which has room for them and knows float64
        for x in torch.split(drawn.x, eval_batch(drawn.x.shape)):
            streams = learner.streams(x.to(device))
            inputs.append(learner.inputs_of(streams)[2].cpu())
    readout.fit(torch.cat(inputs), y, drawn.image)
    sizes = [stream.shape[1] - width for stream, width in zip(streams, feature_widths(learner), strict=True)]
    readout.inputs = torch.tensor(sizes, device=device)


def feature_widths(network: MultiHeadNetwork) -> list[int]:
    """Of each stream's features: the width of the backbone at its time."""
    return [cast(nn.Linear, head).in_features for head in network.heads]
