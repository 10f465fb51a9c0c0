"""The network as it was before a task, for methods that distil (LwF, iCaRL)."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from lockgate.backbones.base import Backbone


class Teacher(nn.Module):
    """A frozen copy of a plain network and its heads; in evaluation mode, whatever is asked.

    A part of its learner like any other: it moves to the device and is in the state. A resumed run makes it again from
    the same bits, the end of the task before.
    """

    def __init__(self, backbone: Backbone, heads: nn.ModuleList) -> None:
        super().__init__()
        self.backbone, self.heads = copy.deepcopy(backbone), copy.deepcopy(heads)
        self.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> Teacher:
        """Stays as it is."""
        super().train(False)
        return self

    @torch.no_grad()
    def forward(self, x: Tensor) -> list[Tensor]:
        """Logits (B, classes) of each head on standardised images (B, C, H, W).

        In fp32 where the network computes in less: what is made of them are targets, and bfloat16 has no 0.999.
        """
        features = self.backbone(x, 0).features
        return [head(features).float() for head in self.heads]
