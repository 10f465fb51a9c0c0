"""Buffers that change their size as tasks come, and take that of whatever is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn


def take_sizes(module: nn.Module, state: Mapping[str, Tensor], prefix: str, names: Iterable[str]) -> None:
    """Give the buffers ``names`` the sizes they have in ``state``; their values come with ``load_state_dict``."""
    for name in names:
        if prefix + name in state:
            setattr(module, name, torch.empty_like(state[prefix + name], device=getattr(module, name).device))
