"""The paper's method, class-incremental, rehearsed from a generative memory (Section 4.4): no image is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from lockgate.config import option
from lockgate.memory.gan.schedule import GanOptions
from lockgate.memory.generative import GenerativeMemory
from lockgate.methods.ccgn.class_incremental import Streams, StreamsOptions


@dataclass(frozen=True)
class GenerativeOptions(GanOptions, StreamsOptions):
    """Options of ccgn-generative."""

    mix_real: bool = option(
        False, "Rehearse the current task on its real images: the flaw of mixing real and generated (supplement)."
    )


class CCGNGenerative(Streams):
    """Keeps one generator per task."""

    Options: ClassVar[type[Any]] = GenerativeOptions
    options: GenerativeOptions
    memory: GenerativeMemory

    def make_memory(self) -> GenerativeMemory:
        """No generators yet."""
        return GenerativeMemory(self.options.gan, self.options.mix_real)
