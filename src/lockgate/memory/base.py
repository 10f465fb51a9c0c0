"""What a memory does for the task classifier (paper, Section 3.3)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lockgate.training.phase import Phase
from lockgate.types import Examples, Task


class Memory(nn.Module):
    """Keeps something of past tasks, and gives images of all tasks seen so far. All of it is in ``state_dict``."""

    fresh = False
    """Whether ``draw`` gives other images each time, so that it is worth calling every epoch."""

    def begin_task(self, task: Task) -> None:
        """``task`` begins. Cheap and deterministic: a resumed run calls it again."""

    @property
    def preparation_steps(self) -> int:
        """Steps that ``preparation`` takes."""
        return 0

    def preparation(self, task: Task) -> Phase | None:
        """What has to be trained before ``task`` itself, if anything."""
        return None

    def draw(self, current: Examples, counts: Tensor, rng: torch.Generator) -> Examples:
        """``counts[t]`` images of each task t up to the current one, with repetition; ``current`` is its real data."""
        raise NotImplementedError

    def all(self, current: Examples) -> Examples | None:
        """Every image there is to rehearse on, of every task; None where there is no end to them."""
        return None

    def stored(self) -> Examples | None:
        """The real images kept of the tasks that have ended, on the CPU; None where none are."""
        return None

    def end_task(self, task: Task, rng: torch.Generator) -> None:
        """``task`` has ended: keep of it what this memory keeps."""

    def rebuild(self, image_shape: tuple[int, int, int], classes: int) -> None:
        """Make a fresh memory's modules those after one more task; the values come with ``load_state_dict``."""

    def shown(self) -> Tensor | None:
        """Some of the images kept, in one picture (C, H, W) uint8; None where none are."""
        return None

    @property
    def kept_bytes(self) -> int:
        """Bytes kept, counted as the paper does."""
        raise NotImplementedError

    @property
    def kept_images(self) -> int:
        """Real images kept."""
        return 0
