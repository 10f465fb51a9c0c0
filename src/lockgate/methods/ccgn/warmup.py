"""When the gates of a task begin to decide, and how much of the sparsity objective is at work: not before something is
learnt, and not at the end.

While a class loss stands at that of guessing, a gate that shuts at random, or for the sake of sparsity, keeps the
filters behind it from learning anything: on hard images a whole task may end there. So, where the class loss decides
(``sparsity_warmup: loss``), gates are without noise and sparsity takes no part until the loss has fallen.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from lockgate.methods.ccgn.options import CCGNOptions
from lockgate.training import distributed

WARMUP = 0.2
"""Where the class loss decides: the warm-up is at least this share of a task's epochs."""
LEARNT = 0.3
"""... and lasts until the class loss is so far below that of guessing, of which it is a share."""
LATEST = 0.6
"""... but no longer than this share of the time until a budget is to be kept: gates need the rest of it to close, and
the filters that are left to take over. A task of many classes may know a lot by then and be far from LEARNT."""
NARROWING = 40
"""Steps that this takes for each gated layer, at least: what is shut in one upsets all that follow."""
PACE = 0.02
"""Of the running mean of how far the class loss is below that of guessing, by a step."""


def is_annealing(options: CCGNOptions, progress: float) -> bool:
    """Whether the task is near its end: gates decide without noise, sparsity rests, and statistics stand still.

    Statistics lag behind weights that move. What is learnt under lagging ones is lost when, at the end, the weights
    stand still and the statistics catch up; so they are held, and the weights follow.
    """
    return progress >= 1 - options.anneal


def held_from(options: CCGNOptions, steps: int, epochs: int) -> int:
    """The step of a task (``steps`` in each of ``epochs``) from which on its budget is kept: when annealing begins, or
    the last epoch."""
    return min(math.ceil(epochs * steps * (1 - options.anneal)), (epochs - 1) * steps)


def steps_to_hold(options: CCGNOptions, step: int, steps: int, epochs: int) -> int:
    """Steps of a task until then; while the last epoch has not begun, one at least; 0 from then on."""
    return max(1, held_from(options, steps, epochs) - step) if step < (epochs - 1) * steps else 0


def narrowing(options: CCGNOptions, step: int, steps: int, epochs: int, layers: int) -> float:
    """How far the room of a task has come down to what its budget allows, from 0 to 1 when the budget is to be kept.

    It comes down in equal steps, from the latest end of the warm-up on or sooner where there are many ``layers``. Where
    a task learns fast, prices have shut most of what is too much by then. Where it does not, nothing would be left of
    what it knows if all that were shut at once. Where there are too few steps for that many layers it is 1 throughout:
    such a task begins in the room that it may keep.
    """
    hold = held_from(options, steps, epochs)
    begin = min(LATEST * hold, hold - NARROWING * layers)
    return 1.0 if step >= hold or begin < 0 else max(0.0, (step - begin) / (hold - begin))


def warmup_epochs(options: CCGNOptions, epochs: int) -> int:
    """Of so many epochs of a task, those in which the sparsity objective takes no part, whatever is learnt.

    They are no candidates of model selection either: all gates are open.
    """
    return max(1, round(WARMUP * epochs)) if options.sparsity_warmup == "loss" else options.sparsity_warmup


class Warmup(nn.Module):
    """Whether the current task's warm-up is over. A part of the state: a resumed run goes on."""

    fallen: Tensor
    learnt: Tensor

    def __init__(self, options: CCGNOptions) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("fallen", torch.zeros(()))  # how far the class loss is below guessing, a running mean
        self.register_buffer("learnt", torch.tensor(False))  # whether it has been far enough

    def begin_task(self) -> None:
        """Nothing is learnt."""
        self.fallen.zero_()
        self.learnt.fill_(False)

    @torch.no_grad()
    def update(self, class_loss: Tensor, classes: int) -> None:
        """Note the class loss of a step, the mean of all ranks, where it decides."""
        if self.options.sparsity_warmup != "loss":
            return
        loss = distributed.total(class_loss.detach().clone()) / distributed.world_size()
        self.fallen.lerp_(below_chance(loss, classes).to(self.fallen), PACE)
        self.learnt.logical_or_(self.fallen >= LEARNT)

    def over(self, epoch: int, epochs: int, narrowing: float = 0.0) -> bool:
        """Whether the sparsity objective takes part in ``epoch`` of so many; once the room comes down it does."""
        return epoch >= warmup_epochs(self.options, epochs) and (narrowing > 0 or not self.quiet)

    @property
    def quiet(self) -> bool:
        """Whether gates are to decide without noise: nothing is learnt yet, and the class loss decides."""
        return self.options.sparsity_warmup == "loss" and not bool(self.learnt)

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        for name, value in self.named_buffers():  # 0.1 did not keep them: its task goes on as if nothing were learnt
            state.setdefault(prefix + name, torch.zeros_like(value))
        super()._load_from_state_dict(state, prefix, *args)


def sparsity_share(options: CCGNOptions, class_loss: Tensor, classes: int, training: bool) -> float | Tensor:
    """How much of the sparsity objective is at work once it takes part, from 0 to 1.

    Held-out data are judged by the whole of it: an epoch that learnt less must not look sparser for it.
    """
    return below_chance(class_loss, classes) if options.sparsity_warmup == "loss" and training else 1.0


def below_chance(class_loss: Tensor, classes: int) -> Tensor:
    """How far a cross-entropy is below that of guessing: 1 where it is zero, 0 from chance on. No gradient."""
    if classes == 1:  # nothing to learn
        return torch.ones_like(class_loss)
    return (1 - class_loss.detach() / math.log(classes)).clamp(min=0)
