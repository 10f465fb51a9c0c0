"""Full replay: every image of the past is kept and trained on again. The upper bound of the class-incremental setting.

Also here: ``SingleHead``, one softmax over all classes seen, which replay and distillation methods share.
"""

from __future__ import annotations

import sys
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.backbones.base import Backbone
from lockgate.memory.episodic import EpisodicMemory
from lockgate.methods.base import Learner
from lockgate.types import Batch, Examples, Task


class SingleHead(Learner):
    """The heads of all tasks side by side as one: label y of task t is class y + (classes of tasks 0 .. t-1)."""

    def add_task(self, classes: int) -> None:
        """Outputs for one more task; the earlier ones keep learning."""
        super().add_task(classes)
        self.heads.requires_grad_(True)

    @property
    def starts(self) -> list[int]:
        """The first class of each task, and after the last task the number of classes seen."""
        sizes: list[int] = [entry["classes"] for entry in self.structure()]
        return list(accumulate(sizes, initial=0))

    def labels(self, examples: Batch | Examples) -> Tensor:
        """The class of each image among all classes seen."""
        return examples.y + torch.tensor(self.starts, device=examples.y.device)[examples.task]

    def features(self, x: Tensor) -> Tensor:
        """Pooled features (B, F); plain networks have one stream for all tasks."""
        out: Tensor = self.backbone(self.input(x), 0).features
        return out

    def all_logits(self, x: Tensor) -> Tensor:
        """Logits (B, classes seen)."""
        features = self.features(x)
        return torch.cat([head(features) for head in self.heads], dim=1)

    def class_loss(self, batch: Batch) -> Tensor:
        """Cross-entropy among all classes seen."""
        return F.cross_entropy(self.all_logits(batch.x), self.labels(batch))

    def predict(self, x: Tensor, task: int | None) -> Tensor:
        """Logits of ``task``'s classes, or of all classes seen."""
        return self.logits(x, task) if task is not None else self.all_logits(x)


class FullReplay(SingleHead):
    """Task t trains on the union of tasks 0 .. t."""

    def __init__(self, backbone: Backbone, options: Any, channels: int, standardise: bool) -> None:
        super().__init__(backbone, options, channels, standardise)
        self.memory = EpisodicMemory(sys.maxsize)

    def begin_task(self, task: Task) -> Examples:
        """Outputs for the task; to train on: everything seen so far."""
        return self.memory.all(super().begin_task(task))

    def end_task(self, task: Task) -> None:
        """Keep the whole task."""
        self.memory.end_task(task, torch.Generator())  # all is kept: there is nothing to draw

    def remembered(self) -> dict[str, int]:
        """Every image seen so far."""
        return {"images": self.memory.kept_images, "bytes": self.memory.kept_bytes}
