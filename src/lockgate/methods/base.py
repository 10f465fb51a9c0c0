"""The hooks of a method. A run calls them in this order, and steps the optimiser itself:

begin_task -> preparation
    -> { loss -> backward -> after_backward -> clip -> before_step -> step -> after_step }
-> end_task -> predict

What a run may ask besides (restore, audit, report) is in ``protocols.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.methods.network import Context, MultiHeadNetwork
from lockgate.training.phase import Phase, eval_batch
from lockgate.types import Batch, Examples, Losses, Task

__all__ = ["Context", "Method", "NoOptions"]


@dataclass(frozen=True)
class NoOptions:
    """A method with nothing to choose."""


class Method(MultiHeadNetwork):
    """A network with a head per task, and the rules by which it learns: hooks, which sub-classes override."""

    Options: ClassVar[type[Any]] = NoOptions
    version: ClassVar[int] = 1
    """Of what the method learns, raised by hand whenever the same experiment would learn something else: results of
    another version are not used for tables any more."""
    joint: ClassVar[bool] = False
    """Whether the method is given all tasks at once."""
    closed_form: ClassVar[bool] = False
    """Whether tasks are learnt without a step of the optimiser: all at once, when they end."""
    class_incremental: ClassVar[bool] = True
    """Whether ``predict`` can do without the task."""
    options: Any
    """An instance of ``Options``."""
    class_weights: Tensor | None = None
    """What each class of the current task counts in the class loss; None: all the same."""

    @classmethod
    def version_of(cls, options: Mapping[str, Any]) -> int:
        """The version of what an experiment of these options, all of them, learns."""
        return cls.version

    # -- hooks, in the order in which a run calls them; ``TrainableModule`` has those around a step ------------------

    def stage_steps(self, images: Sequence[int], planned: Callable[[int], int]) -> list[int]:
        """Optimiser steps of each stage, for the progress bar.

        ``images``: training images of each stage's task; 0: learnt long ago, from images that are not here.
        ``planned(n)``: steps of the experiment's schedule on n images.
        """
        before = 0 if self.memory is None else self.memory.preparation_steps
        return [before + planned(count) if count else 0 for count in images]

    def begin_task(self, task: Task) -> Examples:
        """Grow for ``task`` and return what to train on. Cheap and deterministic: a resumed run calls it again."""
        if self.standardise and not self.heads:
            self.input.fit(task.train.parts(eval_batch(self.image_shape)))
        self.class_weights = torch.tensor(task.weights) if task.weights else None
        for classes in task.heads:
            self.add_task(classes)
        return task.train

    def preparation(self, task: Task) -> Phase | None:
        """What has to be trained before ``task`` itself, if anything: what its memory needs."""
        return None if self.memory is None else self.memory.preparation(task)

    def schedule(self, phase: Phase) -> Phase:
        """How the task itself is trained: as ``phase`` says, unless the method has a schedule of its own."""
        return phase

    def loss(self, batch: Batch) -> Losses:
        """The terms of the objective on ``batch``; their sum is minimised."""
        return {"class": self.class_loss(batch)}

    def end_task(self, task: Task) -> None:
        """Consolidate what was learnt; the best weights have been reloaded."""

    def predict(self, x: Tensor, task: int | None) -> Tensor:
        """Logits of images (B, C, H, W) uint8: of ``task``'s classes, or without a task of all classes seen so far.

        Without a task, heads that were trained apart simply compete by their logits.
        """
        if task is not None:
            return self.logits(x, task)
        return torch.cat([self.logits(x, t) for t in range(len(self.heads))], dim=1)

    # -- what hooks are made of --------------------------------------------------------------------------------------

    def class_loss(self, batch: Batch) -> Tensor:
        """Cross-entropy of each image under the head of the current task."""
        return self.cross_entropy(self.logits(batch.x, len(self.heads) - 1), batch.y)

    def cross_entropy(self, logits: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy of the current task's logits (B, classes), classes weighted as the task asks for."""
        return F.cross_entropy(logits, y, None if self.class_weights is None else self.class_weights.to(logits))
