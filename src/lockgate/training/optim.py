"""The optimiser and the learning rate, the same for every method (the paper's *optim* group)."""

from __future__ import annotations

import math

import torch

from lockgate.config import OptimConfig
from lockgate.training.phase import TrainableModule

WARM_UP, START, END = 0.3, 1 / 25, 1e-4
"""One-cycle: the share of steps going up, and the first and last factor."""


def make_optimiser(trainable: TrainableModule, config: OptimConfig) -> torch.optim.Optimizer:
    """A new optimiser for a task: no stale momentum from the one before."""
    groups = [group for group in trainable.parameter_groups(config.lr) if group["params"]]
    if config.optimiser == "sgd":
        made: torch.optim.Optimizer = torch.optim.SGD(
            groups, lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay
        )
    else:
        made = torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, weight_decay=config.weight_decay)
    for group in made.param_groups:
        group["peak_lr"] = group["lr"]
    return made


def lr_factor(config: OptimConfig, epoch: int, progress: float) -> float:
    """The learning rate as a factor on its peak: a function of where the task stands, so there is no state to save.

    ``progress`` runs from 0 to 1 over the task's steps.
    """
    if config.schedule == "milestones":
        return 0.1 ** sum(epoch >= milestone for milestone in config.milestones)
    if config.schedule == "constant":
        return 1.0
    if progress < WARM_UP:
        return _cosine(START, 1.0, progress / WARM_UP)
    return _cosine(1.0, END, (progress - WARM_UP) / (1 - WARM_UP))


def set_lr(optimiser: torch.optim.Optimizer, factor: float) -> None:
    """Give every group ``factor`` times its peak learning rate."""
    for group in optimiser.param_groups:
        group["lr"] = group["peak_lr"] * factor


def _cosine(start: float, end: float, progress: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * min(progress, 1.0))) / 2
