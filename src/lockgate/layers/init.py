"""How filters start, and start again when they are re-initialised. Draws from torch's current generator."""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Iterator
from typing import Literal

from torch import Tensor, nn

Init = Literal["he", "torch"]
_draws = contextvars.ContextVar("draws", default=True)


@contextlib.contextmanager
def left_empty() -> Iterator[None]:
    """Inside, nothing is drawn: every value is about to be loaded, and drawing it first takes longer than loading."""
    before = _draws.set(False)
    try:
        yield
    finally:
        _draws.reset(before)


def draws() -> bool:
    """Whether values are drawn; else whatever is made is about to be loaded."""
    return _draws.get()


class Linear(nn.Linear):
    """``nn.Linear``, of which there are several for each task."""

    def reset_parameters(self) -> None:
        """Draw new values, as torch does."""
        if draws():
            super().reset_parameters()


def he_deviation(fan: float, last: bool = False) -> float:
    """Deviation of weights with ``fan`` inputs an output that keeps the scale of a signal (He et al. 2015).

    ``last``: no ReLU follows that would halve it.
    """
    return math.sqrt((1 if last else 2) / fan)


def initialise(weight: Tensor, bias: Tensor | None, init: Init) -> None:
    """Fill a convolution's or a linear map's weight (c_out, c_in, ...) and bias in place."""
    if not draws():
        return
    if init == "he":
        nn.init.kaiming_normal_(weight, nonlinearity="relu")
        if bias is not None:
            nn.init.zeros_(bias)
        return
    nn.init.kaiming_uniform_(weight, a=math.sqrt(5))  # what nn.Conv2d and nn.Linear do themselves
    if bias is not None:
        bound = 1 / math.sqrt(weight[0].numel())
        nn.init.uniform_(bias, -bound, bound)
