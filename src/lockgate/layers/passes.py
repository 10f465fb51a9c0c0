"""A pass through a network that somebody else wrote: whose stream it is, and what its layers have to tell.

Layers ask for the pass under way; nothing has to be handed through a ``forward`` that others have written.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

from torch import Tensor, nn


@dataclass
class Pass:
    """One pass through a network; what its layers have to tell."""

    task: int | None
    """Whose stream it is; None: of the network as it was given."""
    gates: dict[str, Tensor] = field(default_factory=dict)
    features: Tensor | None = None
    """What reached the head."""
    replay: dict[str, Tensor] | None = None
    """What ``Replayed`` modules give, instead of computing it."""
    outputs: dict[str, Tensor] = field(default_factory=dict)
    """What they gave."""


_CURRENT: ContextVar[Pass | None] = ContextVar("lockgate_pass", default=None)


@contextmanager
def running(task: int | None, replay: dict[str, Tensor] | None = None) -> Iterator[Pass]:
    """Within, layers are those of ``task``. Of this thread only: others may run other streams."""
    token = _CURRENT.set(Pass(task, replay=replay))
    try:
        yield cast(Pass, _CURRENT.get())
    finally:
        _CURRENT.reset(token)


def stream() -> Pass | None:
    """The pass of a task's stream that is under way, if any."""
    at = _CURRENT.get()
    return None if at is None or at.task is None else at


def current() -> Pass | None:
    """The pass that is under way, if any."""
    return _CURRENT.get()


class Replayed(nn.Module):
    """A frozen module whose output can be given instead of being computed."""

    unit: str

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the class it had; or what the pass says."""
        at = _CURRENT.get()
        if at is not None and at.replay is not None:
            return at.replay[self.unit]
        out = super().forward(*args, **kwargs)
        if at is not None:
            at.outputs[self.unit] = out
        return out


def change_class(module: nn.Module, part: type[nn.Module]) -> Any:
    """Make ``module`` a ``part`` that is still what it was: see ``slots.py``. Once is enough."""
    if not isinstance(module, part):
        module.__class__ = _with_part(part, type(module))
    return module


def _made(part: type[nn.Module], base: type[nn.Module]) -> type[nn.Module]:
    return type(f"{part.__name__}{base.__name__}", (part, base), {"__doc__": part.__doc__, "__module__": __name__})


_with_part: Any = functools.cache(_made)
