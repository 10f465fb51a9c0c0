"""The paper's method, class-incremental, rehearsed from an episodic memory (Section 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from lockgate.config import option
from lockgate.memory.episodic import EpisodicMemory
from lockgate.methods.streams import Streams, StreamsOptions
from lockgate.types import Examples


@dataclass(frozen=True)
class EpisodicOptions(StreamsOptions):
    """Options of ccgn-episodic."""

    buffer: int = option(2000, "Capacity C of the memory: real images kept in all. Paper: 500 to 2000.", ge=1)
    targets: Literal["task", "class"] = option(
        "task", "What the task classifier tells apart: tasks (the paper), or classes, summed up by task."
    )


class CCGNEpisodic(Streams):
    """Keeps exactly C real images."""

    Options: ClassVar[type[Any]] = EpisodicOptions
    options: EpisodicOptions
    memory: EpisodicMemory

    def make_memory(self) -> EpisodicMemory:
        """An empty buffer."""
        return EpisodicMemory(self.options.buffer)

    def outputs(self, classes: int) -> int:
        """One for a task, or one for each of its classes."""
        return classes if self.options.targets == "class" else 1

    def target(self, examples: Examples) -> Tensor:
        """The task, or the class among all classes seen."""
        if self.options.targets == "task":
            return examples.task
        outputs = torch.tensor(self.task_classifier.outputs)
        return examples.y + (outputs.cumsum(0) - outputs)[examples.task]
