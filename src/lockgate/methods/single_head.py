"""One softmax over all classes seen, which replay and distillation methods share."""

from __future__ import annotations

from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.methods.base import Method
from lockgate.types import Batch, Examples


class SingleHead(Method):
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
