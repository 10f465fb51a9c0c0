"""For how long and by which optimiser a GAN is trained (supplement, "WGAN details"). One for all generative methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor, nn

from lockgate.config import OptimConfig, option
from lockgate.memory.gan.nets import Generator
from lockgate.memory.gan.wgan_gp import WGANGP
from lockgate.training.phase import Phase, TrainableModule
from lockgate.types import Examples

ROUND = 100
"""Iterations that one epoch of generator training counts."""

Gan = TypeVar("Gan", bound=WGANGP)


@dataclass(frozen=True)
class GanOptions:
    """How GANs are trained, in every method that has some. Defaults fit two cores; `paper` sets the supplement's."""

    width: float = option(0.25, "Channels of generators and critics, as a factor on the supplement's.", gt=0)
    iterations: int = option(1000, "Generator steps a task, in hundreds if more. Paper: 200,000.", ge=1)
    critic_steps: int = option(2, "Critic steps for each generator step. Paper: 5.", ge=1)
    penalty_every: int = option(2, "Critic steps between two gradient penalties. Paper: 1, in each.", ge=1)
    batch_size: int = option(32, "Images in a step of the GAN. Paper: 64.", ge=2)
    lr: float = option(1e-3, "Learning rate of the GAN. Paper: 1e-4.", gt=0)
    average: float = option(
        0.0,
        "Keep the running mean of a generator's weights over about this share of its iterations. Paper: 0, the last "
        "weights. Without effect on dgm.",
        ge=0,
        le=1,
    )

    @property
    def epochs(self) -> int:
        """Epochs of a hundred iterations."""
        return math.ceil(self.iterations / ROUND)

    @property
    def iterations_per_epoch(self) -> int:
        """Generator steps of each."""
        return min(ROUND, self.iterations)

    @property
    def steps_per_epoch(self) -> int:
        """Steps of each, the critic's and the generator's."""
        return self.iterations_per_epoch * (self.critic_steps + 1)

    @property
    def steps(self) -> int:
        """Critic and generator steps of one GAN."""
        return self.epochs * self.steps_per_epoch

    @property
    def window(self) -> int:
        """Iterations whose mean is kept."""
        return math.ceil(self.average * self.iterations)

    def made(self, kind: type[Gan], generator: Generator, critic: nn.Module) -> Gan:
        """A GAN of this schedule."""
        return kind(generator, critic, self.critic_steps, self.penalty_every, self.window)

    def phase(self, task: int, trainable: TrainableModule, data: Examples, preview: Callable[[], Tensor]) -> Phase:
        """Training of the generator of ``task`` on real images ``data``."""
        optim = OptimConfig(
            optimiser="adamw",  # without weight decay: Adam
            lr=self.lr,
            betas=(0.5, 0.9),
            weight_decay=0.0,
            clip=0.0,
            batch_size=self.batch_size,
            schedule="constant",
            selection="last",
        )
        return Phase((task, "generator"), trainable, data, self.epochs, self.steps_per_epoch, optim, preview=preview)
