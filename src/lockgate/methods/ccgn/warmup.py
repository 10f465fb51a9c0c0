"""When the sparsity objective takes part, and how much of it: not before something is learnt, and not at the end."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lockgate.methods.ccgn.options import CCGNOptions


def is_annealing(options: CCGNOptions, progress: float) -> bool:
    """Whether the task is near its end: gates decide without noise, sparsity rests, and statistics stand still.

    Statistics lag behind weights that move. What is learnt under lagging ones is lost when, at the end, the weights
    stand still and the statistics catch up; so they are held, and the weights follow.
    """
    return progress >= 1 - options.anneal


WARMUP = 0.2
"""Share of a task's epochs in which the sparsity objective takes no part, where the class loss decides how much."""


def warmup_epochs(options: CCGNOptions, epochs: int) -> int:
    """Of so many epochs of a task, those in which the sparsity objective takes no part.

    They are no candidates of model selection either: all gates are open.
    """
    return max(1, round(WARMUP * epochs)) if options.sparsity_warmup == "loss" else options.sparsity_warmup


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
