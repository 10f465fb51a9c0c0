"""Learning without Forgetting (Li and Hoiem, ECCV 2016 and TPAMI 2018): old heads learn what the old network says.

    loss = cross-entropy of the new head  +  weight * sum over old heads o of  -sum_k y'_o,k log y^'_o,k

y' are the probabilities of the network from before the task, y^' those of the network now, on the same image of the
new task, both softened: y'_k = y_k^(1/T) / sum_j y_j^(1/T), which is the softmax of logits / T. The paper's equation
has no factor T^2, so there is none here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.config import option
from lockgate.methods.base import Context, Method
from lockgate.methods.teacher import Teacher
from lockgate.types import Batch, Examples, Losses, Task


@dataclass(frozen=True)
class LwFOptions:
    """Options of lwf; the defaults are the paper's."""

    temperature: float = option(2.0, "Temperature T that softens both sides of the distillation loss.", gt=0)
    weight: float = option(1.0, "Weight lambda_o of the distillation loss of each old head.", ge=0)


class LwF(Method):
    """One plain network, one head per task, and while a task is learnt a frozen copy from before it."""

    Options: ClassVar[type[Any]] = LwFOptions
    options: LwFOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.teacher: Teacher | None = None

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> Examples:
        """Copy the network as it is, then add a head."""
        if self.heads:
            self.teacher = Teacher(self.backbone, self.heads)
        return super().begin_task(task)

    def loss(self, batch: Batch) -> Losses:
        """Cross-entropy of the new head; old heads are held to the teacher's answers."""
        x = self.input(batch.x)
        features = self.backbone(x, 0).features  # one pass: no plain layer depends on the task
        logits = [head(features) for head in self.heads]
        losses = {"class": F.cross_entropy(logits[-1], batch.y)}
        if self.teacher is not None:
            losses["distillation"] = self.options.weight * self.distillation(logits[:-1], self.teacher(x))
        return losses

    def distillation(self, logits: list[Tensor], wanted: list[Tensor]) -> Tensor:
        """Softened cross-entropy between what old heads say (B, classes) and what they said, summed over heads."""
        t = self.options.temperature
        terms = [F.cross_entropy(now / t, (old / t).softmax(1)) for now, old in zip(logits, wanted, strict=True)]
        return torch.stack(terms).sum()

    def end_task(self, task: Task) -> None:
        """The teacher has done its work."""
        self.teacher = None

    # -- what the run asks -------------------------------------------------------------------------------------------

    def add_task(self, classes: int) -> None:
        """A head for one more task; old heads go on learning."""
        super().add_task(classes)
        self.heads.requires_grad_(True)
