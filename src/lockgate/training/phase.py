"""What the loop can train, and by which schedule: a method on its task, what prepares it, what completes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

from lockgate.config import AugmentConfig, OptimConfig
from lockgate.types import Batch, Examples, Losses

EVAL_BATCH = 512
"""Images per pass wherever nothing is trained."""
EVAL_SIDE = 64
"""Images larger than so many pixels each way are fewer, so that they take as much memory."""


def eval_batch(shape: Sequence[int]) -> int:
    """Images (..., H, W) per pass. Always the same for a size: kernels, and so bits, depend on it."""
    return max(1, min(EVAL_BATCH, EVAL_BATCH * EVAL_SIDE**2 // (shape[-2] * shape[-1])))


class TrainableModule(nn.Module):
    """A module whose forward is its loss, so that DDP can wrap it. The loop steps the optimiser."""

    wrapped: ClassVar[bool] = True
    """Whether the run's precision and DDP apply. If not, it trains in fp32 and its gradients are averaged over
    ranks one by one: for modules that use some of their parameters in some steps only."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0
        """The epoch of the current phase; the loop sets these before each step."""
        self.epochs = 0
        """Epochs of the current phase."""
        self.steps = 0
        """Steps of one epoch."""
        self.step = 0
        """The step, counted from the start of the phase."""
        self.progress = 0.0
        """How far training is, from 0 to 1."""

    def forward(self, batch: Batch) -> Losses:
        """The loss, under the name that DDP wraps."""
        return self.loss(batch)

    def loss(self, batch: Batch) -> Losses:
        """The terms of the objective on ``batch``; the loop minimises their sum."""
        raise NotImplementedError

    def after_backward(self) -> None:
        """Change gradients, before clipping."""

    def before_step(self) -> None:
        """Change gradients, after clipping."""

    def after_step(self) -> None:
        """Change parameters, after the optimiser's step."""

    def clipped_apart(self) -> list[nn.Parameter]:
        """Parameters whose gradient is clipped on its own, so that it has no say in how the others move."""
        return []

    @property
    def first_selectable_epoch(self) -> int:
        """Model selection looks at epochs from this one on."""
        return 0

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Trainable parameters with their learning rates."""
        return [{"params": [p for p in self.parameters() if p.requires_grad], "lr": lr}]


class Validation(NamedTuple):
    """What held-out data say about an epoch."""

    accuracy: float
    objective: float


@dataclass(frozen=True)
class Phase:
    """One thing to train: who, on what, for how long."""

    key: tuple[int | str, ...]
    """Where in the run this is: the task, and a name if it is not the task itself. Seeds derive from it."""
    trainable: TrainableModule
    data: Examples
    epochs: int
    steps: int
    """Steps of one epoch; images are drawn in a new order each epoch, and again from its start if they run out."""
    optim: OptimConfig
    validate: Callable[[], Validation] | None = None
    """Looks at held-out data after each epoch; None: the last epoch is kept."""
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    """How the images vary from epoch to epoch."""
    preview: Callable[[], Tensor] | None = None
    """An image (C, H, W) uint8 worth looking at after an epoch."""


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """``modules`` in evaluation mode; gradients flow all the same. Each goes back to the mode it was in."""
    modes = [module.training for module in modules]
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.train(mode)


def steps_per_epoch(images: int, batch_size: int) -> int:
    """Full batches in an epoch; a data set smaller than a batch is one batch."""
    return max(1, images // batch_size)
