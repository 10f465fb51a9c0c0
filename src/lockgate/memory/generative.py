"""Generative memory (paper, Section 3.3 and supplement): one generator per task, trained before the task.

Before, because the task classifier must see generated images of the current task too: mixing real and generated ones
teaches it to tell real from generated, not task from task. ``mix_real`` brings that flaw back, for the ablation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from lockgate.config import OptimConfig
from lockgate.memory.base import Memory
from lockgate.memory.gan.nets import LATENT, Generator, make_critic, make_generator
from lockgate.memory.gan.wgan_gp import WGANGP
from lockgate.trainee import Phase, evaluating
from lockgate.types import Batch, Examples, Task

BATCH = 512
"""Images generated in one pass."""
ROUND = 100
"""Iterations that one epoch of generator training counts."""


@dataclass(frozen=True)
class GanSchedule:
    """How a generator is trained. The paper: width 1, 200,000 iterations, 5 critic steps, a penalty in each."""

    width: float
    iterations: int
    critic_steps: int
    penalty_every: int
    batch_size: int
    lr: float


class GenerativeMemory(Memory):
    """Generators of all tasks, and while a task's own is trained, its critic."""

    fresh = True

    def __init__(self, schedule: GanSchedule, mix_real: bool) -> None:
        super().__init__()
        self.schedule, self.mix_real = schedule, mix_real
        self.generators = nn.ModuleList()
        self.gan: WGANGP | None = None

    def begin_task(self, task: Task) -> None:
        """A new generator and its critic."""
        channels, height, side = task.train.x.shape[1:]
        generator = make_generator((channels, height, side), self.schedule.width)
        critic = make_critic((channels, height, side), self.schedule.width)
        self.gan = WGANGP(generator, critic, self.schedule.critic_steps, self.schedule.penalty_every)

    def rebuild(self, image_shape: tuple[int, int, int]) -> None:
        """One more generator."""
        self.generators.append(make_generator(image_shape, self.schedule.width).requires_grad_(False))

    @property
    def _epochs(self) -> tuple[int, int]:
        """Epochs of a hundred iterations, and steps of each, the critic's and the generator's."""
        iterations = self.schedule.iterations
        return math.ceil(iterations / ROUND), min(ROUND, iterations) * (self.schedule.critic_steps + 1)

    @property
    def preparation_steps(self) -> int:
        """Critic and generator steps of one GAN."""
        return math.prod(self._epochs)

    def preparation(self, task: Task) -> Phase:
        """Train the task's generator on its real images, before the task itself."""
        assert self.gan is not None
        plan = self.schedule
        optim = OptimConfig(
            optimiser="adamw",  # without weight decay: Adam
            lr=plan.lr,
            betas=(0.5, 0.9),
            weight_decay=0.0,
            clip=0.0,
            batch_size=plan.batch_size,
            schedule="constant",
            selection="last",
        )
        return Phase((task.id, "generator"), self.gan, task.train, *self._epochs, optim, picture=self.picture)

    def draw(self, current: Examples, counts: Tensor, rng: torch.Generator) -> Examples:
        """Generated images of every task; with ``mix_real``, real ones of the current task."""
        now = len(counts) - 1
        parts = []
        for task, count in enumerate(counts.tolist()):
            if task == now and self.mix_real:
                parts.append(current.batch(torch.randint(len(current), (count,), generator=rng)))
            else:
                x = generate(self._generator(task), count, rng)
                unknown = torch.full((count,), -1)  # a generated image has a task, and no label within it
                parts.append(Batch(x, unknown, torch.full((count,), task)))
        return Examples.union([Examples(*part) for part in parts])

    def _generator(self, task: int) -> Generator:
        if task < len(self.generators):
            return cast(Generator, self.generators[task])
        assert self.gan is not None
        return self.gan.generator

    def end_task(self, task: Task, rng: torch.Generator) -> None:
        """Keep the generator, drop its critic."""
        assert self.gan is not None
        self.generators.append(self.gan.generator)
        self.gan = None

    def picture(self) -> Tensor:
        """Sixty-four samples of the newest generator in a grid, (C, H, W) uint8."""
        newest = self.gan.generator if self.gan is not None else cast(Generator, self.generators[-1])
        samples = generate(newest, 64, torch.Generator().manual_seed(0))
        rows = [torch.cat(list(row), dim=2) for row in torch.split(samples, 8)]  # each (C, H, 8 W)
        return torch.cat(rows, dim=1)

    @property
    def kept_bytes(self) -> int:
        """Parameters of the generators in single precision: no critics, no buffers."""
        return sum(p.numel() for p in self.generators.parameters()) * 4


@torch.no_grad()
def generate(generator: Generator, count: int, rng: torch.Generator) -> Tensor:
    """``count`` images (count, C, H, W) uint8 on the CPU. BatchNorm goes by its running statistics."""
    device = next(generator.parameters()).device
    noise = torch.randn(count, LATENT, generator=rng)
    with evaluating(generator):
        return torch.cat([generator.pixels(z.to(device)).cpu() for z in torch.split(noise, BATCH)])
