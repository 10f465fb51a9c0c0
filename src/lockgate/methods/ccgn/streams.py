"""The parallel streams of a network, and what its task classifier reads of them (paper, Section 3.3)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from lockgate.methods.ccgn.task_classifier import TaskClassifier
from lockgate.methods.network import MultiHeadNetwork


class Streams:
    """Features of every task's stream of ``network``, as its ``classifier`` takes them.

    Past streams are constants. Of their features only channels that they can open are carried along: the others are
    zero for ever.
    """

    def __init__(self, network: MultiHeadNetwork, classifier: TaskClassifier) -> None:
        self.network, self.classifier = network, classifier
        self._columns: Tensor | None = None  # the same for all steps of a task

    def features(self, x: Tensor, tasks: Sequence[int]) -> list[Tensor]:
        """Features (B, F) of images ``x`` (B, C, H, W) uint8 in the streams of ``tasks``."""
        standard = self.network.input(x)
        return [self.network.backbone(standard, t).features for t in tasks]

    def past(self, x: Tensor) -> Tensor:
        """Features (B, P) of all past streams, at the channels they can open."""
        past = self.features(x, range(self._tasks - 1))
        return self.joined(past, past[0])

    def all(self, x: Tensor) -> Tensor:
        """Features (B, P + F) of past streams at the channels they can open, and of the newest at all."""
        *past, newest = self.features(x, range(self._tasks))
        return torch.cat([self.joined(past, newest), newest], dim=1)

    def classify(self, features: Sequence[Tensor]) -> Tensor:
        """Outputs of the task classifier on features (B, F) of every stream."""
        *past, newest = features
        out: Tensor = self.classifier(self.joined(past, newest), self.columns(), newest)
        return out

    def joined(self, past: Sequence[Tensor], like: Tensor) -> Tensor:
        """Features of past streams side by side (B, P), at the channels they can open; none: empty, as ``like``."""
        parts = [features.index_select(1, self.open_channels(t)) for t, features in enumerate(past)]
        return torch.cat(parts, dim=1) if parts else like.new_zeros(len(like), 0)

    def open_channels(self, task: int) -> Tensor:
        """The channels of a stream's features that can be anything but zero, as an index."""
        return self.network.backbone.open_features(task)

    def columns(self) -> Tensor:
        """Which inputs of the task classifier the open channels of past streams are, (P,)."""
        device = self.network.input.mean.device
        if self._columns is not None and self._columns.device == device:
            return self._columns
        starts = list(itertools.accumulate(self.classifier.inputs, initial=0))
        none = torch.empty(0, dtype=torch.int64, device=device)
        found = torch.cat([none, *(self.open_channels(t) + starts[t] for t in range(self._tasks - 1))])
        if not torch.compiler.is_compiling():  # what an export computes with has no values to keep
            self._columns = found
        return found

    @torch.no_grad()
    def forget_shut(self, task: int) -> None:
        """Zero what the classifier would make of channels that the stream of ``task`` can never open."""
        start, count = sum(self.classifier.inputs[:task]), self.classifier.inputs[task]
        shut = torch.ones(count, dtype=torch.bool, device=self.classifier.squeeze.weight.device)
        shut[self.open_channels(task)] = False
        self.classifier.squeeze.weight[:, start : start + count].masked_fill_(shut, 0)

    def changed(self) -> None:
        """A task has begun, or a state was loaded: other channels may be open."""
        self._columns = None

    @property
    def _tasks(self) -> int:
        return len(self.network.heads)
