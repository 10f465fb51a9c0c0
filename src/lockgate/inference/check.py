"""Does a compiled or exported form answer as its learner does? On all images given, not on a sample.

Logits may differ by rounding. A gate whose log-odds are within rounding of zero may then decide the other way, and its
image's logits move by more; so may the choice between two tasks that are alike to the learner. Such images are found by
looking at the learner's own gates and tasks, counted, and named. Any other difference is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from lockgate.methods.base import Method
from lockgate.methods.ccgn.class_incremental import ClassIncremental
from lockgate.methods.ccgn.method import CCGN

CHECK_BATCH = 256
TOLERANCE = 1e-5
"""Of a score, or of one where the score is smaller."""
UNDECIDED = 1e-4
"""Log-odds of a gate this near to zero are within the rounding of what they are computed from."""


@dataclass(frozen=True)
class Agreement:
    """What was found on a set of images."""

    images: int
    largest: float
    """Largest difference of a score, relative to scores above one, where all gates are decided."""
    undecided: int
    """Images that differ by more than rounding, each with a gate, or two tasks, too near to each other to say."""
    wrong: int
    """Images that differ by more than rounding for no such reason."""
    changed: int
    """Images with another prediction."""

    @property
    def ok(self) -> bool:
        """Whether every difference is rounding, that of a gate on its threshold included."""
        return self.wrong == 0

    @property
    def same_classes(self) -> bool:
        """Whether, moreover, no image gets another class."""
        return self.ok and self.changed == 0

    def text(self) -> str:
        """One sentence for a person."""
        if not self.ok:
            return f"{self.wrong} of {self.images} test images are answered differently"
        parts = [f"{self.images} test images answered alike, scores within {self.largest:.1e}"]
        if self.undecided:
            parts.append(
                f"{self.undecided} with a gate or the choice of the task on its threshold, {self.changed} of them "
                "classified differently"
            )
        return "; ".join(parts)


@torch.no_grad()
def compare(learner: Method, answer: Callable[[Tensor], Tensor], images: Tensor, task: int | None) -> Agreement:
    """``answer`` against ``learner.predict`` on ``images`` (N, C, H, W) uint8."""
    learner.eval()
    streams = range(len(learner.heads)) if task is None else (task,)
    tolerance = _tolerance(learner, task)
    largest, undecided, wrong, changed = 0.0, 0, 0, 0
    for x in torch.split(images, CHECK_BATCH):
        with _margins(learner, streams) as margins:
            wanted = learner.predict(x, task)
        found = answer(x)
        same = (found == wanted) | ((found - wanted).abs() <= tolerance * wanted.abs().clamp(min=1))
        alike = same.all(1)
        near = torch.zeros_like(alike) if not margins else torch.stack(margins).amin(0) < UNDECIDED
        if task is None and not (alike | near).all():
            near |= _tied(learner, x)
        apart = torch.where(found == wanted, 0.0, (found - wanted).abs() / wanted.abs().clamp(min=1))
        largest = max([largest, *apart[alike].flatten().tolist()])
        undecided += int((~alike & near).sum())
        wrong += int((~alike & ~near).sum())
        changed += int((found.argmax(1) != wanted.argmax(1)).sum())
    return Agreement(len(images), largest, undecided, wrong, changed)


def _tolerance(learner: Method, task: int | None) -> float:
    """Of a score; those of a read-out are divided by its temperature, and their rounding with them."""
    if task is not None or not isinstance(learner, ClassIncremental) or learner.readout is None:
        return TOLERANCE
    return TOLERANCE / min(1.0, float(learner.readout.temperature))


def _tied(learner: Method, x: Tensor) -> Tensor:
    """Which images have two likeliest tasks that are within rounding of each other, (B,)."""
    if not isinstance(learner, ClassIncremental) or len(learner.heads) < 2:
        return torch.zeros(len(x), dtype=torch.bool)
    widths = [len(head.weight) for head in cast(list[nn.Linear], list(learner.heads))]
    parts = torch.split(learner.answers(x)["joint"], widths, dim=1)  # log p(t|x) + log p(y|x,t)
    best = torch.stack([part.logsumexp(1) for part in parts], dim=1).topk(2, dim=1).values  # log p(t|x)
    return best[:, 0] - best[:, 1] < UNDECIDED


@contextmanager
def _margins(learner: Method, streams: range | tuple[int, ...]) -> Iterator[list[Tensor]]:
    """Fills a list with how far each layer's gates are from their threshold at least, (B,), while ``learner`` runs."""
    found: list[Tensor] = []
    gates = [layer.gate(t) for layer in learner.gated.values() for t in streams] if isinstance(learner, CCGN) else []
    handles = [
        gate.excite.register_forward_hook(
            lambda _, __, odds, gate=gate: found.append(odds.abs().masked_fill(~gate.seal, torch.inf).amin(1))
        )
        for gate in gates
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
