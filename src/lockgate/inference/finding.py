"""Which task an image is of, in the compiled form: by the paper's task classifier, or by a read-out."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.inference.compact import cut_inputs, frozen, linear
from lockgate.inference.cut import sealed
from lockgate.inference.reading import Weights, weights_of
from lockgate.methods.ccgn.class_incremental import ClassIncremental
from lockgate.methods.ccgn.method import CCGN
from lockgate.methods.ccgn.readout import ReadOut
from lockgate.methods.ccgn.task_classifier import by_task


def read_weights(learner: CCGN) -> list[Weights | None]:
    """What a read-out reads of each stream; None where there is none, or but one task to find."""
    if not isinstance(learner, ClassIncremental) or learner.readout is None or not learner.readout.fitted:
        return [None] * len(learner.heads)
    return list(weights_of(learner, learner.readout))


def make_finder(learner: ClassIncremental) -> nn.Module:
    """What answers log p(t|x), (B, tasks), from features (B, F) of all streams and the read-out's scores."""
    if learner.readout is None or not learner.readout.fitted:
        return ByClassifier(learner)
    return ByReadOut(learner.readout)


class ByClassifier(nn.Module):
    """Eq. 7, on the channels that are left."""

    def __init__(self, learner: ClassIncremental) -> None:
        super().__init__()
        classifier = learner.task_classifier
        parts = torch.split(classifier.squeeze.weight.detach(), classifier.inputs, dim=1)
        columns = [
            cut_inputs(linear(part, classifier.squeeze.bias), sealed(learner, t)[-1]) for t, part in enumerate(parts)
        ]
        self.squeeze = linear(torch.cat([c.weight for c in columns], dim=1), classifier.squeeze.bias)
        self.out = linear(classifier.out.weight, classifier.out.bias)
        self.outputs = list(classifier.outputs)  # its own: the learner may learn more

    def forward(self, features: Tensor, scores: Tensor | None) -> Tensor:
        """log p(t|x)."""
        return by_task(self.out(F.relu(self.squeeze(features))), self.outputs)


class ByReadOut(nn.Module):
    """Scores that all streams have added up."""

    def __init__(self, readout: ReadOut) -> None:
        super().__init__()
        self.bias = frozen(readout.bias / readout.temperature)
        self.outputs = list(readout.outputs)

    def forward(self, features: Tensor, scores: Tensor | None) -> Tensor:
        """log p(t|x)."""
        return by_task(cast(Tensor, scores) + self.bias, self.outputs)
