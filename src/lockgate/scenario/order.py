"""In which order classes come: their own, shuffled by a seed of ours, or by a seed of the field."""

from __future__ import annotations

import numpy as np
import torch

from lockgate.config import ScenarioConfig
from lockgate.training.seeding import generator


def class_order(count: int, config: ScenarioConfig) -> list[int]:
    """The order of ``count`` classes.

    A whole number is a seed as iCaRL, PyCIL and others use it, 1993 most of all:
    ``np.random.seed(1993); np.random.permutation(count)``, without touching numpy's global state.
    """
    if isinstance(config.class_order, int):
        shuffled: list[int] = np.random.RandomState(config.class_order).permutation(count).tolist()
        return shuffled
    if config.class_order == "random":
        drawn: list[int] = torch.randperm(count, generator=generator(config.order_seed, "class order")).tolist()
        return drawn
    return list(range(count))
