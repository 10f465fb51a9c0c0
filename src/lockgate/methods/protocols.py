"""What a run may ask of a method besides its hooks: to be restored, audited, reported. A method has what fits it.

A run looks with ``isinstance`` whether a method has a protocol's members; nothing has to be registered or inherited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from lockgate.layers.gated import TaskGated
from lockgate.methods.capacity import LayerCapacity


@runtime_checkable
class Restorable(Protocol):
    """Can be made again from a checkpoint. ``Method`` is, by its heads and the widths of its backbone."""

    def structure(self) -> list[dict[str, Any]]:
        """What ``rebuild`` needs to make the same modules again, one entry per task; JSON."""

    def rebuild(self, structure: list[dict[str, Any]]) -> None:
        """Make a fresh method's modules those of ``structure``; the values come with ``load_state_dict``."""


@runtime_checkable
class Auditable(Protocol):
    """Promises that past answers never change."""

    @property
    def sealed(self) -> bool:
        """Whether what is ``promised`` of a task decides its answers: while the one has the same bits, so has the
        other."""

    def promised(self, task: int) -> dict[str, Tensor]:
        """The tensors that never change after ``task``, by name."""


@runtime_checkable
class SeveralAnswers(Protocol):
    """Answers without a task in more than one way; ``inference`` is the one that ``predict`` gives."""

    inference: str

    def answers(self, x: Tensor) -> dict[str, Tensor]:
        """Scores (B, classes seen) of images ``x`` (B, C, H, W) uint8, by every kind of inference."""


@runtime_checkable
class ParallelStreams(Protocol):
    """Answers without a task from the features of one stream per task (paper, Section 3.3)."""

    def streams(self, x: Tensor, tasks: Sequence[int] | None = None) -> list[Tensor]:
        """Features (B, F) of the streams of ``tasks`` (all), promised not to change."""

    def answers_from(self, streams: list[Tensor], x: Tensor) -> dict[str, Tensor]:
        """As ``answers`` for images ``x``, from what ``streams`` gave for all tasks."""


@runtime_checkable
class ReadsOnce(Protocol):
    """Answers for every task, and without one, from the same features of a frozen network."""

    def reading_once(self) -> AbstractContextManager[None]:
        """Within, where nothing may change, the network is not run again on a batch that it has seen within."""


@runtime_checkable
class HasGates(Protocol):
    """Has gates that open and shut (paper, Section 3.2)."""

    @property
    def gated(self) -> Mapping[str, TaskGated]:
        """The gated layers by name, in the order of a stream's gates."""


@runtime_checkable
class FindsTask(Protocol):
    """Finds the task from what all streams make of an image."""

    @property
    def finder_macs(self) -> list[tuple[int, int]]:
        """Multiply-accumulates of what finds it, for an image, when there were 1, 2, ... tasks; and those of its
        convolutions as the paper counts them, without input channels."""


@dataclass(frozen=True)
class TaskReport:
    """What a method has to tell after a task, beyond accuracy."""

    capacity: Sequence[LayerCapacity] = ()
    """How much of each layer is taken; empty where nothing is ever taken."""
    fired: Mapping[str, list[float]] = field(default_factory=dict)
    """By layer, for what share of its held-out images each gate of the newest task fires (Eq. 6)."""
    warnings: Sequence[str] = ()
    """What a user should know."""
    notes: Sequence[str] = ()
    """What is worth a line on the screen."""
    memory: Mapping[str, int] | None = None
    """Images and bytes kept of past tasks, and how many of the bytes are `statistics`; None: as ``memory`` says."""


@runtime_checkable
class Reports(Protocol):
    """Has something to tell after a task."""

    def report(self) -> TaskReport:
        """About the task that has just ended."""


def reading_once(method: Any) -> AbstractContextManager[None]:
    """Within, the method reads a batch once if it can; nothing may change within."""
    return method.reading_once() if isinstance(method, ReadsOnce) else nullcontext()


def report_of(method: Any) -> TaskReport:
    """What ``method`` has to tell; nothing if it does not report."""
    return method.report() if isinstance(method, Reports) else TaskReport()


def memory_use(method: Any) -> dict[str, int] | None:
    """Real images kept of past tasks, and bytes counted as the paper does; None: the method keeps nothing."""
    told = report_of(method).memory
    if told is not None:
        return dict(told)
    memory = method.memory
    return None if memory is None else {"images": memory.kept_images, "bytes": memory.kept_bytes}
