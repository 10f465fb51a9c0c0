"""Which task an image is of, in the compiled form: by the paper's task classifier, or by a read-out."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.inference.compact import cut_inputs, linear
from lockgate.inference.cut import sealed
from lockgate.inference.reading import Weights, weights_of
from lockgate.methods.ccgn.class_incremental import ClassIncremental
from lockgate.methods.ccgn.method import CCGN
from lockgate.methods.ccgn.readout import ReadOut
from lockgate.methods.ccgn.task_classifier import by_task, for_classes


def read_weights(learner: CCGN) -> list[Weights | None]:
    """What a read-out reads of each stream; None where there is none, or but one task to find."""
    if not isinstance(learner, ClassIncremental) or learner.readout is None or not learner.readout.fitted:
        return [None] * len(learner.heads)
    return list(weights_of(learner, learner.readout))


def make_finder(learner: ClassIncremental) -> nn.Module:
    """What finds the task, from features (B, F) of all streams, what a read-out's layers score, and the heads' logits.

    It answers log p(t|x), (B, tasks), log p(y|x), (B, classes), and whether it is unsure, (B,).
    """
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
        self.sizes = [cast(nn.Linear, head).out_features for head in learner.heads]

    def forward(self, features: Tensor, scores: Tensor | None, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log p(t|x); times p(y|x,t) of each head, (B, classes); nothing says how sure that is."""
        tasks = by_task(self.out(F.relu(self.squeeze(features))), self.outputs)
        within = [part.log_softmax(1) for part in torch.split(logits, self.sizes, dim=1)]
        told = for_classes(tasks, self.sizes) + torch.cat(within, dim=1)
        return tasks, told, torch.ones_like(tasks[:, 0], dtype=torch.bool)


class ByReadOut(nn.Module):
    """Scores that all layers of all streams have added up, and what the logits of all heads add."""

    bar: Tensor

    def __init__(self, readout: ReadOut) -> None:
        super().__init__()
        self.sizes = list(readout.outputs)
        self.logits = linear(
            readout.weight[:, -sum(self.sizes) :] / readout.temperature, readout.bias / readout.temperature
        )
        self.register_buffer("bar", readout.bar.clone())

    def forward(self, features: Tensor, scores: Tensor | None, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log p(t|x) and log p(y|x), and where it is unsure."""
        told = (cast(Tensor, scores) + self.logits(logits)).log_softmax(1)
        return by_task(told, self.sizes), told, told.amax(1) <= self.bar
