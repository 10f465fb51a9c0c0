"""How much of a network its tasks have taken, and what a user should know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class LayerCapacity:
    """How much of one layer is taken after a task."""

    layer: str
    width: int
    used: int
    """Filters locked by this task or an earlier one."""
    relevant: int
    """Filters this task uses, its own and re-used ones."""

    @property
    def free(self) -> int:
        """Filters left for later tasks."""
        return self.width - self.used

    def to_dict(self) -> dict[str, Any]:
        """For records."""
        return {**asdict(self), "free": self.free}


NEARLY_FULL = 0.1
"""A layer with less than this share of its filters left is worth a warning."""


def nearly_full(layers: Sequence[LayerCapacity]) -> list[str]:
    """A warning of layers in which few filters are left."""
    full = [f"{e.layer} {e.free}/{e.width}" for e in layers if e.free < NEARLY_FULL * e.width]
    remedy = "Raise `sparsity` or `gate_lr` so that gates close, or set `grow` to widen layers."
    return [f"few filters are left for later tasks: {', '.join(full)}. {remedy}"] if full else []


def all_shut(layers: Sequence[LayerCapacity]) -> list[str]:
    """A warning of layers in which no gate fires."""
    shut = ", ".join(e.layer for e in layers if e.relevant == 0)
    remedy = "Lower `sparsity` or train longer."
    return [f"no gate fires in {shut}: the output there is constant. {remedy}"] if shut else []
