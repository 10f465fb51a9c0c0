"""The paper's method, class-incremental, rehearsed from an episodic memory (Section 4.3)."""

from __future__ import annotations

from typing import Any, ClassVar

from lockgate.memory.balanced import BalancedMemory
from lockgate.memory.episodic import EpisodicMemory
from lockgate.methods.ccgn.class_incremental import ClassIncremental
from lockgate.methods.ccgn.options import EpisodicOptions


class CCGNEpisodic(ClassIncremental):
    """Keeps exactly C real images."""

    Options: ClassVar[type[Any]] = EpisodicOptions
    options: EpisodicOptions
    memory: EpisodicMemory

    def make_memory(self) -> EpisodicMemory:
        """An empty buffer. Where classes are rehearsed they have equal parts of a task's; else any images (paper)."""
        kind = BalancedMemory if self.options.targets == "class" else EpisodicMemory
        return kind(self.options.buffer)
