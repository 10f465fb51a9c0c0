"""A reservoir (Vitter 1985) with logits, as Dark Experience Replay keeps it (Buzzega et al., NeurIPS 2020).

the n-th image ever seen (n = 0, 1, ...) goes, with the logits that the network gave it then,
    to slot n        if n < C
    to slot r        else, if r < C, with r uniform in 0 .. n;  what was there is lost
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lockgate.layers.buffers import take_sizes
from lockgate.memory.episodic import EpisodicMemory
from lockgate.types import Batch

LOGIT_BYTES = 4


class ReservoirMemory(EpisodicMemory):
    """Exactly C images once C have been seen, each presentation of an image as likely to be there as any other."""

    logits: Tensor
    seen: Tensor

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.register_buffer("logits", torch.empty(0, 0))  # (N, classes seen); zeros for classes that came later
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def widen(self, classes: int) -> None:
        """Columns for ``classes`` in all."""
        more = classes - self.logits.shape[1]
        self.logits = torch.cat([self.logits, self.logits.new_zeros(len(self.logits), more)], dim=1)

    def offer(self, batch: Batch, logits: Tensor, rng: torch.Generator) -> None:
        """Show it images as they are, and logits (B, classes seen) as they were when the network saw them."""
        place = slots(int(self.seen), len(batch.y), self.capacity, rng)
        self.seen += len(batch.y)
        count = self.kept_images
        old = [slot for slot in place if slot < count]
        new = sorted(slot for slot in place if slot >= count)  # the next ones, without a gap
        values = {"x": batch.x, "y": batch.y, "task": batch.task, "logits": logits.float()}
        for name, value in values.items():
            kept: Tensor = getattr(self, name)
            arrived = value.to(kept)
            if old:
                kept[old] = arrived[[place[slot] for slot in old]]
            if new:
                setattr(self, name, torch.cat([kept, arrived[[place[slot] for slot in new]]]))

    @property
    def kept_bytes(self) -> int:
        """Pixels, one byte each, and logits, four each."""
        return self.x.numel() + LOGIT_BYTES * self.logits.numel()

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        take_sizes(self, state, prefix, ("logits",))
        super()._load_from_state_dict(state, prefix, *args)


def slots(seen: int, count: int, capacity: int, rng: torch.Generator) -> dict[int, int]:
    """Where each of ``count`` new images goes after ``seen`` ones: slot -> which of them holds it in the end."""
    numbers = range(seen, seen + count)
    uniform = torch.rand(count, generator=rng, dtype=torch.float64).tolist()
    place = {}
    for i, (n, u) in enumerate(zip(numbers, uniform, strict=True)):
        slot = n if n < capacity else int(u * (n + 1))
        if slot < capacity:
            place[slot] = i
    return place
