"""The paper's method, class-incremental, rehearsed from a generative memory (Section 4.4): no image is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from lockgate.config import option
from lockgate.memory.generative import GanSchedule, GenerativeMemory
from lockgate.methods.streams import Streams, StreamsOptions


@dataclass(frozen=True)
class GenerativeOptions(StreamsOptions):
    """Options of ccgn-generative. Defaults fit two cores; the `paper` recipe sets the supplement's."""

    gan_width: float = option(0.25, "Channels of generators and critics, as a factor on the supplement's.", gt=0)
    gan_iterations: int = option(2000, "Generator steps a task, in hundreds if more. Paper: 200,000.", ge=1)
    gan_critic_steps: int = option(3, "Critic steps for each generator step. Paper: 5.", ge=1)
    gan_penalty_every: int = option(2, "Critic steps between two gradient penalties. Paper: 1, in each.", ge=1)
    gan_batch_size: int = option(64, "Images in a step of the GAN. Paper: 64.", ge=2)
    gan_lr: float = option(3e-4, "Learning rate of the GAN. Paper: 1e-4.", gt=0)
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
        o = self.options
        plan = GanSchedule(
            o.gan_width, o.gan_iterations, o.gan_critic_steps, o.gan_penalty_every, o.gan_batch_size, o.gan_lr
        )
        return GenerativeMemory(plan, o.mix_real)
