"""Exemplars (Rebuffi et al., iCaRL, CVPR 2017): an equal number of images of every class, the most telling ones first.

The numbers of algorithms are the paper's.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lockgate.memory.episodic import EpisodicMemory
from lockgate.types import Batch


class ExemplarMemory(EpisodicMemory):
    """Images class by class, each class in the order in which its exemplars were chosen: its best m are its first m."""

    def reduce(self, each: int) -> None:
        """Algorithm 5: keep the first ``each`` exemplars of every class."""
        if not len(self.y):
            return
        _, sizes = torch.unique_consecutive(torch.stack([self.task, self.y], 1), dim=0, return_counts=True)
        starts = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        kept = torch.arange(len(self.y), device=self.y.device) - starts < each
        self.x, self.y, self.task = self.x[kept], self.y[kept], self.task[kept]

    def add(self, exemplars: Batch) -> None:
        """Keep the exemplars of a new class, in the order in which they were chosen."""
        x, y, task = (part.to(self.y.device) for part in exemplars)
        self.x, self.y, self.task = torch.cat([self.x, x]), torch.cat([self.y, y]), torch.cat([self.task, task])


def herding(features: Tensor, count: int) -> Tensor:
    """Algorithm 4: ``count`` rows of ``features`` (N, F), no row twice, whose mean stays nearest to the mean of all.

        p_k = argmin_x || mu - (phi(x) + S) / k ||,   S = phi(p_1) + ... + phi(p_{k-1})

    Multiplied out, k^2 times the square is |phi(x)|^2 - 2 phi(x) . (k mu - S), plus what x has no part in: one product
    of a matrix and a vector a step. Returns indices (min(count, N),) in the order of choice.
    """
    columns = features.T.contiguous()  # BLAS multiplies this layout by a vector several times faster
    mean = features.mean(0)
    half_square = features.square().sum(1) / 2
    wanted = torch.zeros_like(mean)  # k mu - S
    chosen = []
    for _ in range(min(count, len(features))):
        wanted += mean
        best = (columns.T @ wanted - half_square).argmax()
        wanted -= features[best]
        half_square[best] = torch.inf  # never again
        chosen.append(best)
    return torch.stack(chosen) if chosen else torch.empty(0, dtype=torch.int64, device=features.device)
