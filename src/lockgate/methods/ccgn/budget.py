"""How sparse a task must be: two budgets held by a controller, on any data, instead of a coefficient for each data set.

new filters    of the filters that are still free, a task may take its part of ``budget``: by the last expected task no
               more than this share of a layer is taken. The first finds nothing to reuse: it has a ``head_start``
open filters   for one picture a stream may open so much of a layer that the streams of all expected tasks together cost
               no more than the dense network

Both are bounds, so their coefficients are dual variables: a price is raised while what it buys is above its bound, and
lowered below (dual ascent). What is above the first bound all the same is shut for good, the filters that fired least
since the last look first (``pruning.WINDOW``), and the rest of the task is learnt without it: little by little, as the
room comes down from a whole layer to the bound, which it reaches when annealing begins; or, where there are too few
steps for so many layers, before the first of them (``warmup.narrowing``).
Filters that are locked already cost time but no room: they count in the second budget only.

Where layers grow, so would streams: the hundredth could open all that 99 tasks have locked, and with it would grow its
gates, what the task classifier reads (Eq. 7), and the seconds of an answer. So when a budget is held, a stream keeps at
most as many filters of a layer as the layer had at first, and a task costs as much late as early.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lockgate.backbones.base import Channels
from lockgate.layers.gated import TaskGated
from lockgate.training import distributed

RATE = 0.05
"""Of dual ascent: what a price rises in a step by which a whole layer is above its bound."""


class Budget(nn.Module):
    """Prices and bounds of the current task. A part of the state: a resumed run goes on."""

    price_new: Tensor
    price_open: Tensor
    quota: Tensor
    held: Tensor

    def __init__(
        self,
        layers: Sequence[TaskGated],
        channels: Sequence[Channels],
        share: float,
        start: float,
        head_start: float = 0.0,
    ) -> None:
        super().__init__()
        self.layers, self.share, self.start = layers, share, start
        self.written = {id(writer): group for group in channels for writer in group.writers}
        """The channels that each layer writes, where they are told."""
        self.first = [layer.width for layer in layers]
        """The widths before any has grown."""
        self.head_start = head_start
        """How many parts more than its own the first task may take."""
        self.most_open = 1.0
        """Share of a layer that a picture may open."""
        self.register_buffer("price_new", torch.full((len(layers),), start))
        self.register_buffer("price_open", torch.full((len(layers),), start))
        self.register_buffer("quota", torch.zeros(len(layers), dtype=torch.int64))
        self.register_buffer("held", torch.tensor(False))  # whether what was above has been shut

    def begin_task(self, task: int, expected: int, grow: float) -> None:
        """Bounds of ``task`` (0, 1, ...) of as many as are ``expected``; where layers ``grow``, of what is free."""
        self.most_open = math.sqrt(self.share / max(expected, task + 1))
        part = min(1.0, (task + 1 + self.head_start) / (expected + self.head_start))
        for i, layer in enumerate(self.layers):
            used, width = int(layer.locked.sum()), layer.width
            room = self.share * (width - used) if grow else self.share * width * part - used
            self.quota[i] = max(1, math.floor(room))
        self.price_new.fill_(self.start)
        self.price_open.fill_(self.start)
        self.held.fill_(False)

    def loss(self, gates: Sequence[Tensor]) -> Tensor:
        """What is open, at its prices: the mean over layers, gates being (B, c_out)."""
        costs = []
        for i, (layer, gate) in enumerate(zip(self.layers, gates, strict=True)):
            new = gate.mul(~layer.locked).mean()
            costs.append(self.price_new[i] * new + self.price_open[i] * gate.mean())
        return torch.stack(costs).mean()

    @torch.no_grad()
    def update(self, gates: Sequence[Tensor]) -> None:
        """One step of dual ascent, by what all ranks have opened."""
        new = torch.stack([g.mul(~layer.locked).mean() for layer, g in zip(self.layers, gates, strict=True)])
        both = torch.stack([new, torch.stack([gate.mean() for gate in gates])])  # (2, layers)
        new, open_ = distributed.total(both) / distributed.world_size()
        widths = torch.tensor([layer.width for layer in self.layers], device=new.device)
        self.price_new.add_(RATE * (new - self.quota / widths)).clamp_(min=0)
        self.price_open.add_(RATE * (open_ - self.most_open)).clamp_(min=0)

    @torch.no_grad()
    def narrow(self, task: int, share: float) -> bool:
        """Shut for good what is above the room that is left when it has come down by ``share``; whether any was."""
        shut = 0
        for layer, quota in zip(self.layers, self.quota.tolist(), strict=True):
            free = int((~layer.locked).sum())
            shut += self._shut(layer, task, ~layer.locked, quota + math.ceil((1 - share) * max(0, free - quota)))
        return shut > 0

    @torch.no_grad()
    def hold(self, task: int) -> None:
        """Shut for good what is above the quota of new filters, and then what is above the first width."""
        for layer, quota, first in zip(self.layers, self.quota.tolist(), self.first, strict=True):
            self._shut(layer, task, ~layer.locked, quota)
            self._shut(layer, task, torch.ones_like(layer.locked), first)
        self.held.fill_(True)

    def _shut(self, layer: TaskGated, task: int, among: Tensor, most: int) -> int:
        """Of the filters ``among``, (c,), leave ``most`` that can open; how many were shut.

        Those go that fired least since the last look, and of those that fired as often, as all do while gates are open,
        the least important ones.
        """
        gate = layer.gate(task)
        can_open = among & gate.seal & ~gate.pruned
        above = max(0, int(can_open.sum()) - most)
        if above:
            wanted = distributed.from_rank_zero(gate.fires + self.importance(layer))
            gate.pruned[wanted.masked_fill(~can_open, torch.inf).argsort(stable=True)[:above]] = True
        return above

    def importance(self, layer: TaskGated) -> Tensor:
        """How much each filter of a layer matters to what reads it, (c,), from 0 to 1; zeros where nobody knows."""
        group = self.written.get(id(layer))
        if group is None:
            return torch.zeros_like(layer.locked, dtype=torch.float32)
        found = group.importance()
        return found / (1 + found)
