"""Filters that no image of a batch opens are not computed, and what reads them reads the others.

A gate is decided by what its layer reads, so it is known before anything is convolved. A map that lacks channels
carries the places of those that it has, and the one layer that reads it takes those columns of its weights.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

FEWEST = 32
"""Images from which on it pays: to look which filters are wanted, and to copy their weights, takes time too."""
STEP = 4
"""As many filters as a multiple of this are computed: for every new number of them a kernel is made."""
PAYS = 0.9
"""They are left out where fewer than this share is left."""


def awake(opened: Tensor) -> Tensor | None:
    """Which filters to compute where gates (B, C) bool are open, as sorted places; None: all of them."""
    if torch.compiler.is_compiling() or opened.device.type != "cpu" or len(opened) < FEWEST:
        return None  # a graph computes the same for all images; other devices would have to be waited for
    wanted: npt.NDArray[np.bool_] = np.any(opened.numpy(), axis=0)  # in NumPy: of so few numbers calls take the time
    return _filled_up(wanted, STEP)


def some(places: Tensor, width: int, step: int) -> Tensor | None:
    """``places`` of filters, in order, with others to make a multiple of ``step``; None: nearly all ``width``."""
    if places.device.type != "cpu":
        return None
    wanted = np.zeros(width, dtype=bool)
    wanted[places.numpy()] = True
    return _filled_up(wanted, step)


def _filled_up(wanted: npt.NDArray[np.bool_], step: int) -> Tensor | None:
    count = max(step, -(-int(wanted.sum()) // step) * step)
    if count > PAYS * len(wanted):
        return None
    return torch.from_numpy(np.sort(np.argsort(~wanted, kind="stable")[:count]))


def holding(x: Tensor, places: Tensor) -> Tensor:
    """``x``, which says that it has these channels, and no others."""
    cast(Any, x).places = places
    return x


def held(x: Tensor) -> Tensor | None:
    """The channels that ``x`` has; None: all of them."""
    found: Tensor | None = getattr(x, "places", None)
    return found


def columns(weight: Tensor, places: Tensor | None) -> Tensor:
    """The inputs ``places`` of ``weight`` (c_out, c_in, ...)."""
    return weight if places is None else weight.index_select(1, places)
