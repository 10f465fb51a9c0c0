"""Learning without Forgetting (Li and Hoiem, ECCV 2016 and TPAMI 2018): old heads learn what the old network says.

    loss = cross-entropy of the new head  +  weight * sum over old heads o of  -sum_k y'_o,k log y^'_o,k

y' are the probabilities of the network from before the task, y^' those of the network now, on the same image of the
new task, both softened: y'_k = y_k^(1/T) / sum_j y_j^(1/T), which is the softmax of logits / T. The paper's equation
has no factor T^2, so there is none here.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.backbones.base import Backbone
from lockgate.config import option
from lockgate.methods.base import Learner
from lockgate.types import Batch, Examples, Losses, Task


@dataclass(frozen=True)
class LwFOptions:
    """Options of lwf; the defaults are the paper's."""

    temperature: float = option(2.0, "Temperature T that softens both sides of the distillation loss.", gt=0)
    weight: float = option(1.0, "Weight lambda_o of the distillation loss of each old head.", ge=0)


class LwF(Learner):
    """One plain network, one head per task, and while a task is learnt a frozen copy from before it."""

    Options: ClassVar[type[Any]] = LwFOptions
    options: LwFOptions

    def __init__(self, backbone: Backbone, options: LwFOptions, channels: int, standardise: bool) -> None:
        super().__init__(backbone, options, channels, standardise)
        self.teacher: nn.ModuleDict | None = None

    # -- the verbs ---------------------------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> Examples:
        """Copy the network as it is, then add a head."""
        if self.heads:
            # A part of the learner like any other: it moves to the device and is in the state. A resumed run makes it
            # again from the same bits, the end of the task before.
            teacher = nn.ModuleDict({"backbone": self.backbone, "heads": self.heads})
            self.teacher = copy.deepcopy(teacher).requires_grad_(False).eval()
        return super().begin_task(task)

    def loss(self, batch: Batch) -> Losses:
        """Cross-entropy of the new head; old heads are held to the teacher's answers."""
        x = self.input(batch.x)
        logits = _all_logits(self.backbone, self.heads, x)
        losses = {"class": F.cross_entropy(logits[-1], batch.y)}
        if self.teacher is not None:
            with torch.no_grad():
                wanted = _all_logits(self.teacher["backbone"], self.teacher["heads"], x)
            losses["distillation"] = self.options.weight * self.distillation(logits[:-1], wanted)
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

    def train(self, mode: bool = True) -> LwF:
        """Set the mode; the teacher stays in eval mode, whatever is asked."""
        super().train(mode)
        if self.teacher is not None:
            self.teacher.eval()
        return self


def _all_logits(backbone: nn.Module, heads: nn.Module, x: Tensor) -> list[Tensor]:
    """Logits of all heads on images ``x``, which share one pass: no layer of the plain kit depends on the task."""
    assert isinstance(heads, nn.ModuleList)
    features = backbone(x, 0).features
    return [head(features) for head in heads]
