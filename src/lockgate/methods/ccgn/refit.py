"""The task classifier, fitted once more when a task has ended and nothing that feeds it will ever change again.

While a task is learnt its stream moves, and the task classifier runs after it. Behind the seal all features are
constants: a few seconds of ordinary training on them, with dropout, tell tasks apart better than all that went before.
Only the task classifier moves.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.config import OptimConfig
from lockgate.methods.ccgn.task_classifier import TaskClassifier
from lockgate.training.phase import Phase, TrainableModule
from lockgate.types import Batch, Examples, Losses

IMAGES = 16_384
"""Images whose features it is fitted to at most, of all tasks together and as many of each."""
DROPOUT = 0.5
STILL = 1e-6
"""Features that vary less than this are left as they are."""
OPTIM = OptimConfig(optimiser="adamw", lr=3e-3, weight_decay=1e-2, clip=0.0, batch_size=128, schedule="one_cycle")


def images(steps: int) -> int:
    """How many images so many steps want."""
    return min(IMAGES, steps * OPTIM.batch_size)


class Refit(TrainableModule):
    """A task classifier on features of all streams, those of past ones at the channels ``columns``.

    It learns on standardised features, by weights of its own; what they come to on the features as they are is put
    into the task classifier.
    """

    wrapped = False  # in fp32, as the features are

    def __init__(self, classifier: TaskClassifier, columns: Tensor, features: Tensor) -> None:
        super().__init__()
        newest = torch.arange(sum(classifier.inputs[:-1]), sum(classifier.inputs), device=columns.device)
        self.used = torch.cat([columns, newest])  # inputs of the task classifier that features are given for
        self.mean, self.scale = features.mean(0), features.std(0)
        self.scale[self.scale < STILL] = 1.0
        old = classifier.squeeze
        weight = old.weight.detach()[:, self.used]
        self.squeeze = nn.Linear(len(self.used), classifier.hidden, device=features.device)
        self.squeeze.weight.data = weight * self.scale
        self.squeeze.bias.data = old.bias.detach() + weight @ self.mean
        self.classifier, self.out = classifier, copy.deepcopy(classifier.out)
        self.classifier.requires_grad_(False)
        self.out.requires_grad_(True)

    def loss(self, batch: Batch) -> Losses:
        """Cross-entropy; ``batch.x`` (B, P + F) are features of past streams and of the newest, ``y`` outputs."""
        hidden = F.relu(self.squeeze((batch.x - self.mean) / self.scale))
        return {"task": F.cross_entropy(self.out(F.dropout(hidden, DROPOUT, self.training)), batch.y)}

    @torch.no_grad()
    def after_step(self) -> None:
        """Put what was learnt into the task classifier."""
        weight = self.squeeze.weight / self.scale
        self.classifier.squeeze.weight[:, self.used] = weight
        self.classifier.squeeze.bias.copy_(self.squeeze.bias - weight @ self.mean)
        self.classifier.out.load_state_dict(self.out.state_dict())


def phase(
    task: int, classifier: TaskClassifier, columns: Tensor, features: Tensor, target: Tensor, steps: int
) -> Phase:
    """So many steps on ``features`` (N, P + F), for which outputs ``target`` (N,) are right; always in one order."""
    data = Examples(features, target, torch.full_like(target, task))
    return Phase((task, "refit"), Refit(classifier, columns, features), data, 1, steps, OPTIM)
