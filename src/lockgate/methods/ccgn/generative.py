"""The paper's method, class-incremental, rehearsed from a generative memory (Section 4.4): no image is kept."""

from __future__ import annotations

from typing import Any, ClassVar

from lockgate.memory.generative import GenerativeMemory
from lockgate.methods.ccgn.class_incremental import ClassIncremental
from lockgate.methods.ccgn.options import GenerativeOptions


class CCGNGenerative(ClassIncremental):
    """Keeps one generator per task."""

    version: ClassVar[int] = 10
    without_budget: ClassVar[int] = 9
    """8: the companion is rehearsed from generators, too. 9 and 10: those of ClassIncremental's 8 and 9. Before, its
    own."""
    Options: ClassVar[type[Any]] = GenerativeOptions
    options: GenerativeOptions
    memory: GenerativeMemory

    def make_memory(self) -> GenerativeMemory:
        """No generators yet."""
        return GenerativeMemory(self.options.gan, self.options.mix_real)
