"""A learner on a network of another make: asked as it is, or a task's stream of it without what its gates keep shut.

The learner's own answers are those that are promised to the bit; a stream that was cut gives them up to rounding.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from lockgate.backbones.foreign import ForeignBackbone
from lockgate.backbones.foreign_cut import OneStream, cut_stream
from lockgate.methods.base import Method
from lockgate.methods.ccgn.method import CCGN


class AsItIs(nn.Module):
    """Images to what the learner answers: with ``task`` the logits of its classes, without scores of all seen."""

    def __init__(self, learner: Method, task: int | None) -> None:
        super().__init__()
        self.learner, self.task = learner, task

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) uint8 to (B, classes)."""
        return self.learner.predict(x, self.task)


class CutTask(nn.Module):
    """Images to the logits of one task's classes, by a stream that was cut."""

    def __init__(self, learner: CCGN, stream: OneStream, head: nn.Linear) -> None:
        super().__init__()
        self.input, self.stream = learner.input, stream
        self.register_buffer("weight", head.weight.detach().index_select(1, stream.places))
        self.register_buffer("bias", head.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) uint8 to (B, classes)."""
        return nn.functional.linear(self.stream(self.input(x)), cast(Tensor, self.weight), cast(Tensor, self.bias))


def answering(learner: Method, task: int) -> nn.Module:
    """The logits of ``task``: cut where its gates are shut and the network allows it."""
    if isinstance(learner, CCGN) and isinstance(learner.backbone, ForeignBackbone):
        stream = cut_stream(learner.backbone, task)
        if stream is not None:
            return CutTask(learner, stream, cast(nn.Linear, learner.heads[task]))
    return AsItIs(learner, task)
