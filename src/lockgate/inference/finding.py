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
from lockgate.methods.ccgn.task_classifier import by_class, by_task, for_classes, together


def read_weights(learner: CCGN) -> list[Weights | None]:
    """What a read-out reads of each stream; None where there is none, or but one task to find."""
    if not isinstance(learner, ClassIncremental) or learner.readout is None or not learner.readout.fitted:
        return [None] * len(learner.heads)
    return list(weights_of(learner, learner.readout))


def make_finder(learner: ClassIncremental) -> nn.Module:
    """What finds the task, from features (B, F) of all streams, what a read-out's layers score, and the heads' logits.

    It answers log p(t|x), (B, tasks), what that says about each class, (B, classes), and whether it is unsure, (B,).
    """
    classifier = ByClassifier(learner)
    if learner.readout is None or not learner.readout.fitted:
        return classifier
    return ByBoth(classifier, learner.readout)


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
        """log p(t|x), and the same for each class of t; nothing says how sure that is."""
        tasks = by_task(self.evidence(features), self.outputs)
        return tasks, for_classes(tasks, self.sizes), torch.ones_like(tasks[:, 0], dtype=torch.bool)

    def evidence(self, features: Tensor) -> Tensor:
        """What it gives for features (B, F), before it is a probability."""
        out: Tensor = self.out(F.relu(self.squeeze(features)))
        return out


class ByBoth(nn.Module):
    """Scores that all layers of all streams have added up, what the logits of all heads add, and Eq. 7 beside them."""

    bar: Tensor

    def __init__(self, classifier: ByClassifier, readout: ReadOut) -> None:
        super().__init__()
        self.classifier, classes = classifier, sum(readout.outputs)
        self.register_buffer("bar", readout.bar.clone())
        self.logits = linear(readout.weight[:, -classes:] / readout.temperature, readout.bias / readout.temperature)

    def forward(self, features: Tensor, scores: Tensor | None, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log p(t|x) and log p(y|x), and where the read-out is unsure."""
        read = (cast(Tensor, scores) + self.logits(logits)).log_softmax(1)
        own = self.classifier
        classes = together(read, by_class(own.evidence(features), own.outputs, own.sizes))
        return by_task(classes, own.sizes), classes, read.amax(1) <= self.bar
