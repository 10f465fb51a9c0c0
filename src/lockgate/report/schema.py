"""What a run leaves behind, as frozen dataclasses shared by the tables, the figures and the page.

Anything a run may not have (class-incremental scores, gates, a memory, an audit) is `None` or empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Row = tuple[float | None, ...]


@dataclass(frozen=True)
class Epoch:
    """One pass over the data of one task, or one epoch of its generator; `open` is the mean share of open gates."""

    task: int
    epoch: int
    losses: Mapping[str, float | None]
    val_objective: float | None
    val_accuracy: float | None
    open: float | None
    seconds: float | None


@dataclass(frozen=True)
class Stage:
    """What was noted when a task had been learnt."""

    task: int
    seconds: float | None
    best_epoch: int | None


@dataclass(frozen=True)
class Scores:
    """Accuracy after task i (row) on task j (column), and what follows from it."""

    matrix: tuple[Row, ...]
    average: float | None
    backward_transfer: float | None
    forgetting: float | None
    average_incremental: float | None = None
    """Mean over stages of the average accuracy after each."""


@dataclass(frozen=True)
class Layer:
    """Filters of one layer: used by all tasks so far (cumulative), and relevant to each task on its own."""

    name: str
    width: int
    used_after: tuple[int, ...]
    relevant: tuple[int, ...]

    @property
    def used(self) -> int:
        """Filters in use at the end."""
        return self.used_after[-1] if self.used_after else 0


@dataclass(frozen=True)
class Macs:
    """Mean multiply-accumulates of a forward pass after each stage; `_paper` counts the paper's way."""

    dense: float | None
    """Of the network with every filter computed, at its first width."""
    dense_paper: float | None
    task_incremental: Row
    task_incremental_paper: Row
    widths: tuple[tuple[float | None, float | None], ...] = ()
    """As ``dense`` and ``dense_paper``, at the width that each task began with."""

    @property
    def grown(self) -> bool:
        """Whether the network has widened since its first task."""
        return any(dense != self.dense for dense, _ in self.widths)


@dataclass(frozen=True)
class MemoryUse:
    """What is kept of past tasks: real images, or statistics of classes, or generators. Bytes as the paper counts."""

    images: int
    bytes: int
    statistics: int = 0
    """Bytes of these that are counts, sums and products of features."""


@dataclass(frozen=True)
class Audit:
    """Verdict of the exactness audit: how many locked tensors, logit sets and sets of features were compared."""

    ok: bool
    tensors: int | None
    logits: int | None
    streams: int | None


@dataclass(frozen=True)
class Summary:
    """`summary.json`."""

    method: str
    dataset: str
    backbone: str | None
    seed: int
    tasks: int
    epochs: int | None
    seconds: float
    task_names: tuple[tuple[str, ...], ...]
    task_incremental: Scores
    class_incremental: Scores | None
    inference: Mapping[str, Scores]
    task_found: tuple[Row, ...]
    memory: MemoryUse | None
    capacity: tuple[Layer, ...]
    gates: Mapping[str, tuple[Row, ...]]
    macs: Macs | None
    audit: Audit | None
    environment: Mapping[str, str]
    command: str | None
    svm: float | None = None
    """Class-incremental average of an SVM on the stored images; None where there are none, or nobody asked."""
    domain_incremental: Scores | None = None
    """Where tasks share their classes: the class right, whatever task it was found in."""
    held_out: bool = False
    """Whether accuracy is of held-out images: of a run that was made to choose settings."""
    unlearnt: Mapping[int, float] = field(default_factory=dict)
    """Tasks that ended at chance on their held-out images, with their accuracy there."""

    @property
    def at_once(self) -> bool:
        """Whether all tasks were learnt together, so that there is one stage and nothing to forget."""
        return len(self.task_incremental.matrix) == 1 and self.tasks > 1


@dataclass(frozen=True)
class Picture:
    """Images side by side in one PNG: made by the generator of a task, or kept of all tasks."""

    task: int
    png: bytes

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, from the header."""
        return int.from_bytes(self.png[16:20], "big"), int.from_bytes(self.png[20:24], "big")


@dataclass(frozen=True)
class Run:
    """All that the page needs of a run folder; `config` is the text of `config.yaml`, as written.

    `generators` are the epochs in which the generator of each task was trained, before the task itself; `kept` shows
    some of the images that are kept, a row for each task.
    """

    folder: Path
    summary: Summary
    epochs: tuple[Epoch, ...]
    stages: tuple[Stage, ...]
    generators: tuple[Epoch, ...]
    pictures: tuple[Picture, ...]
    kept: Picture | None
    config: str | None
