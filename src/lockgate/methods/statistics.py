"""What closed-form classifiers keep of a task instead of its images: counts, sums and products of features.

    n_c = images of class c     s_c = sum of their features z     M = sum of z z^T over all images

Sums do not depend on the order of images or tasks, so what is solved from them after the last task is what all images
at once would give, but for rounding, which float64 keeps small.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.layers.buffers import take_sizes
from lockgate.training import distributed


class Statistics(nn.Module):
    """Of every class seen: n and s; of all together: M, if ``products``."""

    counts: Tensor
    sums: Tensor
    products: Tensor

    def __init__(self, inputs: int, products: bool) -> None:
        super().__init__()
        side = inputs if products else 0
        self.register_buffer("counts", torch.zeros(0, dtype=torch.float64))  # (classes,)
        self.register_buffer("sums", torch.zeros(0, inputs, dtype=torch.float64))  # (classes, D)
        self.register_buffer("products", torch.zeros(side, side, dtype=torch.float64))  # (D, D)

    def add(self, parts: Iterable[tuple[Tensor, Tensor]], classes: int, again: bool = False) -> None:
        """One more task of so many classes: features (B, D) and labels (B,) in parts, of this rank; summed over all.

        ``again``: more images of the classes that were added last.
        """
        counts, sums = self.counts.new_zeros(classes), self.sums.new_zeros(classes, self.sums.shape[1])
        products = torch.zeros_like(self.products)
        for features, y in parts:
            z = features.to(sums)
            of_class = F.one_hot(y.to(z.device), classes).to(z)  # (B, classes)
            counts += of_class.sum(0)
            sums += of_class.T @ z
            if len(products):
                products += z.T @ z
        counts, sums, products = (distributed.total(value) for value in (counts, sums, products))
        if again:
            counts, sums = counts + self.counts[-classes:], sums + self.sums[-classes:]
            self.counts, self.sums = self.counts[:-classes], self.sums[:-classes]
        self.counts, self.sums = torch.cat([self.counts, counts]), torch.cat([self.sums, sums])
        self.products = self.products + products

    def plus(self, other: Statistics) -> Statistics:
        """Of the images of both, which are of the same classes."""
        both = Statistics(self.sums.shape[1], len(self.products) > 0)
        for name in ("counts", "sums", "products"):
            setattr(both, name, getattr(self, name) + getattr(other, name))
        return both

    @property
    def means(self) -> Tensor:
        """Of each class, (classes, D)."""
        return self.sums / self.counts[:, None]

    def covariance(self) -> Tensor:
        """Of features about the mean of their class, the same for all classes, (D, D)."""
        scatter = self.products - self.sums.T @ self.means
        return scatter / self.counts.sum()

    @property
    def bytes(self) -> int:
        """What it takes to keep."""
        return sum(value.numel() * value.element_size() for value in (self.counts, self.sums, self.products))

    def _apply(self, fn: Any, recurse: bool = True) -> Statistics:
        # MPS does not know float64: there, the statistics stay where they are.
        if fn(torch.empty(0)).device.type != "mps":
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        take_sizes(self, state, prefix, ("counts", "sums", "products"))
        super()._load_from_state_dict(state, prefix, *args)
