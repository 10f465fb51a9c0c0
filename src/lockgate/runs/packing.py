"""Tensors on disk without their zeros: which entries are there, a bit each, and their values.

As layers widen, what a past task can never open is zero: weights of channels that came later, rows of gates that are
sealed. Written whole, each task would add more of it than the one before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from lockgate.types import State

SAVES = 512
"""Bytes that leaving zeros out has to save: two tensors are written for one."""
THERE, VALUES = "there", "values"


def packed(state: Mapping[str, Tensor]) -> State:
    """``state`` with every tensor that is worth it as two, of names that say its shape: ``name|2x3|there``."""
    made: State = {}
    for name, value in state.items():
        parts = _parts(value)
        if parts is None:
            made[name] = value
        else:
            shape = "x".join(map(str, value.shape))
            made |= {f"{name}|{shape}|{kind}": part for kind, part in zip((THERE, VALUES), parts, strict=True)}
    return made


def unpacked(tensors: Mapping[str, Tensor]) -> State:
    """What ``packed`` was given."""
    made: State = {}
    for key, value in tensors.items():
        name, *how = key.rsplit("|", 2)
        if how[1:] not in ([THERE], [VALUES]):
            made[key] = value
        elif how[1] == VALUES:
            shape = [int(size) for size in how[0].split("x")]
            bits = np.unpackbits(tensors[f"{name}|{how[0]}|{THERE}"].numpy(), count=math.prod(shape))
            whole = torch.zeros(math.prod(shape), dtype=value.dtype)
            whole[torch.from_numpy(bits).bool()] = value
            made[name] = whole.reshape(shape)
    return made


def _parts(value: Tensor) -> tuple[Tensor, Tensor] | None:
    """Which entries are there, and their values; None: it is better written whole. To the bit: -0.0 is there."""
    if value.dtype != torch.float32 or 4 * value.numel() < SAVES:
        return None
    flat = value.detach().cpu().contiguous().flatten()
    there = flat.view(torch.int32) != 0
    if 4 * int((~there).sum()) - value.numel() // 8 < SAVES:
        return None
    return torch.from_numpy(np.packbits(there.numpy())), flat[there]
