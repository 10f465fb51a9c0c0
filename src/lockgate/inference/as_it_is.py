"""A learner on a network of another make, asked as it is: who reads which of its channels is not known, so none is cut.

The uncut stream is the one whose answers are promised; there is no second form of it.
"""

from __future__ import annotations

from torch import Tensor, nn

from lockgate.methods.base import Method


class AsItIs(nn.Module):
    """Images to what the learner answers: with ``task`` the logits of its classes, without scores of all seen."""

    def __init__(self, learner: Method, task: int | None) -> None:
        super().__init__()
        self.learner, self.task = learner, task

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) uint8 to (B, classes)."""
        return self.learner.predict(x, self.task)
