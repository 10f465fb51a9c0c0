"""The paper's method, class-incremental, rehearsed from an episodic memory (Section 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from lockgate.config import option
from lockgate.memory.episodic import EpisodicMemory
from lockgate.methods.ccgn.class_incremental import Streams, StreamsOptions


@dataclass(frozen=True)
class EpisodicOptions(StreamsOptions):
    """Options of ccgn-episodic."""

    buffer: int = option(2000, "Capacity C of the memory: real images kept in all. Paper: 500 to 2000.", ge=1)


class CCGNEpisodic(Streams):
    """Keeps exactly C real images."""

    Options: ClassVar[type[Any]] = EpisodicOptions
    options: EpisodicOptions
    memory: EpisodicMemory

    def make_memory(self) -> EpisodicMemory:
        """An empty buffer."""
        return EpisodicMemory(self.options.buffer)
