"""The paper's method, class-incremental, rehearsed from an episodic memory (Section 4.3)."""

from __future__ import annotations

from typing import Any, ClassVar

from lockgate.memory.episodic import EpisodicMemory
from lockgate.memory.held_out import HeldOutMemory
from lockgate.methods.ccgn.class_incremental import ClassIncremental
from lockgate.methods.ccgn.options import EpisodicOptions


class CCGNEpisodic(ClassIncremental):
    """Keeps exactly C real images."""

    Options: ClassVar[type[Any]] = EpisodicOptions
    options: EpisodicOptions
    memory: EpisodicMemory

    def make_memory(self) -> EpisodicMemory:
        """An empty buffer: of any images (paper); for a read-out, of images that were held out of training."""
        kind = EpisodicMemory if self.options.readout == "mlp" else HeldOutMemory
        return kind(self.options.buffer)
