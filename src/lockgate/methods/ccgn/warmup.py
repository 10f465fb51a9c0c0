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
PACE = 0.02
"""Of the running mean of that share, by a step."""


def is_annealing(options: CCGNOptions, progress: float) -> bool:
    """Whether the task is near its end: gates decide without noise, sparsity rests, and statistics stand still.

    Statistics lag behind weights that move. What is learnt under lagging ones is lost when, at the end, the weights
    stand still and the statistics catch up; so they are held, and the weights follow.
    """
    return progress >= 1 - options.anneal


def steps_to_hold(options: CCGNOptions, step: int, steps: int, epochs: int) -> int:
    """Steps of a task (``steps`` in each of ``epochs``) until a budget is to be kept: when annealing begins, or the
    last epoch; 0 from then on."""
    last = (epochs - 1) * steps
    if step >= last:
        return 0
    return max(1, min(math.ceil(epochs * steps * (1 - options.anneal)), last) - step)


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

    def over(self, epoch: int, epochs: int) -> bool:
        """Whether the sparsity objective takes part in ``epoch`` of so many."""
        return epoch >= warmup_epochs(self.options, epochs) and not self.quiet

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
