"""While a task is learnt, filters whose gates stay shut are not computed: the same result, in less time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lockgate.layers.gated import TaskGated
from lockgate.methods.ccgn.budget import Budget

INTERVAL = 100
"""Steps between two looks at which filters to prune, at most."""
FIRES = 6.4
"""A look needs so many images that a gate at the threshold fires for about this many: 100 steps of 64 at 0.001. On
fewer, chance would decide which filters are silent."""
WINDOW = 128
"""Images, at least, by which filters are ranked when a budget is held: no look counts anew shortly before."""


class Moment(NamedTuple):
    """Where in a task a step is."""

    step: int
    images: int  # in the step
    sparse: bool  # whether the warm-up is over
    annealing: bool
    ahead: int  # steps until a budget is to be kept: while annealing, and in any case in the last epoch; 0: it is
    narrowing: float = 0.0  # how far the room has come down to what the budget allows


class Pruning(nn.Module):
    """When to look at how often gates fired, and what has been seen. A part of the state: a resumed run goes on."""

    step: Tensor
    sparse: Tensor

    def __init__(self, below: float) -> None:
        super().__init__()
        self.below = below
        """Gates that fired for less than this share of the images since the last look are held shut; 0: none."""
        self.register_buffer("step", torch.tensor(-1))  # of the last look
        self.register_buffer("sparse", torch.tensor(False))  # whether sparsity was at work then

    def update(self, layers: Sequence[TaskGated], task: int, at: Moment, budget: Budget | None) -> bool:
        """Look if it is time to; whether it was. Annealing begins by shutting what a ``budget`` does not allow."""
        above = budget is not None and not at.ahead and not budget.held
        if budget is not None and above:
            budget.hold(task)
        narrowed = budget is not None and self.to_narrow(at) and budget.narrow(task, at.narrowing)
        if not above and not self.due(at, budget is not None):
            return narrowed
        kept = budget is not None and (at.narrowing > 0 or bool(budget.held))
        self.look(layers, task, at.step, at.sparse, at.annealing or kept)
        return True

    def to_narrow(self, at: Moment) -> bool:
        """Whether it is time to shut what is above the room that a task has left: at its first step, where it has no
        more to begin with, and else whenever ``WINDOW`` images more have been counted."""
        if not at.ahead or at.narrowing in (0.0, 1.0):
            return at.step == 0 and at.narrowing == 1.0
        window = math.ceil(WINDOW / at.images)
        return at.step - int(self.step) >= window and at.step % window == 0

    def due(self, at: Moment, budgeted: bool) -> bool:
        """Whether it is time to look. A budget is held by what gates did of late, even if nothing is pruned before."""
        if not self.below and not budgeted:
            return False
        if budgeted and 0 < at.ahead * at.images < WINDOW:
            return False
        enough = math.ceil(FIRES / (self.below * at.images)) if self.below else INTERVAL
        return at.step % min(INTERVAL, enough) == 0 and at.step != int(self.step)

    def look(self, layers: Iterable[TaskGated], task: int, step: int, sparse: bool, annealing: bool) -> None:
        """Prune what stayed silent since the last look, if sparsity was at work all the time.

        While ``annealing`` nothing comes back: with sparsity at rest, gates would open again that it had shut.
        """
        for layer in layers:
            layer.gate(task).prune(self.below if self.sparse else 0.0, for_good=annealing)
        self.step.fill_(step)
        self.sparse.fill_(sparse)

    def end_task(self, layers: Iterable[TaskGated], task: int, seal: bool) -> None:
        """The task has ended. With the ``seal`` nothing pruned is relevant; without, it must not open now."""
        for layer in layers:
            if not seal:
                layer.seal(~layer.gate(task).pruned, task)
            layer.gate(task).unprune()
        self.step.fill_(-1)
        self.sparse.fill_(False)
