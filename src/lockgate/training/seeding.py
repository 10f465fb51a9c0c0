"""Randomness as a function of the seed and of where in the run it is used.

Every random choice draws from a generator derived from ``(seed, place)``, so there is no hidden state to carry along:
a resumed run draws what an uninterrupted one would have drawn.
"""

from __future__ import annotations

import hashlib

import torch


def derive(seed: int, *place: int | str) -> int:
    """A 63-bit seed for one place of the run, e.g. ``derive(0, "step", task, epoch, step)``."""
    digest = hashlib.sha256(repr((seed, *place)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(seed: int, *place: int | str) -> torch.Generator:
    """A CPU generator for one place of the run."""
    return torch.Generator().manual_seed(derive(seed, *place))


def spawn_seed() -> int:
    """A seed drawn from torch's current generator, which the loop has seeded for where the run is."""
    return int(torch.randint(2**62, ()))


def spawn() -> torch.Generator:
    """A CPU generator with such a seed."""
    return torch.Generator().manual_seed(spawn_seed())
