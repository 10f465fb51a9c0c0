"""Generative memory that knows classes (supplement, C-Gen): one AC-GAN per task, trained before the task."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from lockgate.memory.gan.acgan import ACGAN, NOISE, ClassCritic, ConditionalGenerator
from lockgate.memory.gan.nets import grid
from lockgate.memory.generative import GenerativeMemory, generate


class ConditionalMemory(GenerativeMemory):
    """A generator per task that makes labelled images."""

    def make_generator(self, image_shape: tuple[int, int, int], classes: int) -> ConditionalGenerator:
        """A generator of ``classes`` classes."""
        return ConditionalGenerator(image_shape, classes, self.schedule.width)

    def make_gan(self, image_shape: tuple[int, int, int], classes: int) -> ACGAN:
        """A new generator and its critic."""
        critic = ClassCritic(image_shape, classes, self.schedule.width)
        return self.schedule.made(ACGAN, self.make_generator(image_shape, classes), critic)

    def sample(self, task: int, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Generated images of ``task``, of each of its classes alike, with the labels they were made from."""
        y = torch.randint(self._conditional(task).classes, (count,), generator=rng)
        return self.images(task, y, rng), y

    @torch.no_grad()
    def images(self, task: int, y: Tensor, rng: torch.Generator) -> Tensor:
        """An image of each class in ``y`` (N,), labels of ``task``."""
        generator = self._conditional(task)
        noise = torch.randn(len(y), NOISE, generator=rng)
        device = generator.labels.weight.device
        return generate(generator, generator.code(noise.to(device), y.to(device)))

    def preview(self) -> Tensor:
        """Sixty-four samples of the newest generator, a class a row."""
        newest = len(self.generators) - (self.gan is None)
        y = torch.arange(64) // 8 % self._conditional(newest).classes
        return grid(self.images(newest, y, torch.Generator().manual_seed(0)))

    def _conditional(self, task: int) -> ConditionalGenerator:
        return cast(ConditionalGenerator, self.generator(task))
