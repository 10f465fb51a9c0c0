"""Generative memory (paper, Section 3.3 and supplement): one generator per task, trained before the task.

Before, because the task classifier must see generated images of the current task too: mixing real and generated ones
teaches it to tell real from generated, not task from task. ``mix_real`` brings that flaw back, for the ablation.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from lockgate.memory.base import Memory
from lockgate.memory.gan.nets import LATENT, Generator, grid, make_critic, make_generator
from lockgate.memory.gan.options import GanOptions
from lockgate.memory.gan.wgan_gp import WGANGP
from lockgate.training.phase import EVAL_BATCH, Phase, evaluating
from lockgate.types import Batch, Examples, Task


class GenerativeMemory(Memory):
    """Generators of all tasks, and while a task's own is trained, its critic."""

    fresh = True

    def __init__(self, schedule: GanOptions, mix_real: bool = False) -> None:
        super().__init__()
        self.schedule, self.mix_real = schedule, mix_real
        self.generators = nn.ModuleList()
        self.gan: WGANGP | None = None

    def make_generator(self, image_shape: tuple[int, int, int], classes: int) -> Generator:
        """A generator for a task of so many classes, which this one does not tell apart."""
        return make_generator(image_shape, self.schedule.width)

    def make_gan(self, image_shape: tuple[int, int, int], classes: int) -> WGANGP:
        """A new generator and its critic."""
        critic = make_critic(image_shape, self.schedule.width)
        return self.schedule.made(WGANGP, self.make_generator(image_shape, classes), critic)

    def begin_task(self, task: Task) -> None:
        """A new generator and its critic."""
        self.gan = self.make_gan(task.train.image_shape, len(task.classes))

    def rebuild(self, image_shape: tuple[int, int, int], classes: int) -> None:
        """One more generator."""
        self.generators.append(self.make_generator(image_shape, classes).requires_grad_(False))

    @property
    def preparation_steps(self) -> int:
        """Critic and generator steps of one GAN."""
        return self.schedule.steps

    def preparation(self, task: Task) -> Phase:
        """Train the task's generator on its real images, before the task itself."""
        assert self.gan is not None
        return self.schedule.phase(task.id, self.gan, task.train, self.preview)

    def draw(self, current: Examples, counts: Tensor, rng: torch.Generator) -> Examples:
        """Generated images of every task; with ``mix_real``, real ones of the current task."""
        now = len(counts) - 1
        parts = []
        for task, count in enumerate(counts.tolist()):
            if task == now and self.mix_real:
                parts.append(current.batch(torch.randint(len(current), (count,), generator=rng)))
            else:
                x, y = self.sample(task, count, rng)
                parts.append(Batch(x, y, torch.full((count,), task)))
        return Examples.union([Examples(*part) for part in parts])

    def sample(self, task: int, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Generated images of ``task`` with their labels; here they have none: -1."""
        noise = torch.randn(count, LATENT, generator=rng)
        return generate(self.generator(task), noise), torch.full((count,), -1)

    def generator(self, task: int) -> Generator:
        """The generator of ``task``; the newest may still be in training."""
        if task < len(self.generators):
            return cast(Generator, self.generators[task])
        assert self.gan is not None
        return self.gan.final_generator

    def end_task(self, task: Task, rng: torch.Generator) -> None:
        """Keep the generator, drop its critic."""
        assert self.gan is not None
        self.generators.append(self.gan.final_generator)
        self.gan = None

    def preview(self) -> Tensor:
        """Sixty-four samples of the newest generator in a grid, (C, H, W) uint8."""
        newest = len(self.generators) - (self.gan is None)
        return grid(self.sample(newest, 64, torch.Generator().manual_seed(0))[0])

    @property
    def kept_bytes(self) -> int:
        """Parameters of the generators in single precision: no critics, no buffers."""
        return sum(p.numel() for p in self.generators.parameters()) * 4


@torch.no_grad()
def generate(generator: Generator, codes: Tensor) -> Tensor:
    """The images (N, C, H, W) uint8 on the CPU that ``codes`` (N, 128) stand for.

    BatchNorm goes by its running statistics.
    """
    device = next(generator.parameters()).device
    with evaluating(generator):
        return torch.cat([generator.pixels(z.to(device)).cpu() for z in torch.split(codes, EVAL_BATCH)])
