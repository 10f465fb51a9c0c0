"""Dynamic generative memory, DGM (Ostapenko, Puscas, Klein, Jaehnichen and Nabi, CVPR 2019).

One class-conditional generator for all tasks, under masks that harden within each epoch and from epoch to epoch; one
critic, whose auxiliary classifier gives the answers. Task t, counted from 1, begins with a new critic. An iteration:

classifier:     -E[log P(y | x)], all classes seen alike: x real of task t, generated of the past          t steps
critic:         Wasserstein loss and penalty, real and generated of task t                                 several
generator:      -E[D(generated)] + sparsity * growth * share of what is free that the masks take           one
end of task t:  what the masks hold freezes for good; the generator grows until as much is free as at first
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.layers.hat import annealed, share_taken
from lockgate.memory.gan.masked import fresh_noise
from lockgate.memory.gan.nets import grid, to_pixels
from lockgate.memory.gan.wgan_gp import penalty_losses
from lockgate.methods.capacity import LayerCapacity
from lockgate.methods.dgm.network import DGMNetwork, DGMOptions
from lockgate.methods.protocols import TaskReport
from lockgate.training.phase import Phase, evaluating
from lockgate.types import Batch, Examples, Losses, Task


class DGM(DGMNetwork):
    """A generator that forgets nothing, and a critic that is rehearsed from it."""

    Options: ClassVar[type[Any]] = DGMOptions
    version: ClassVar[int] = 2
    """1: Lockgate 0.1."""
    wrapped = False  # as in WGAN-GP: each step moves one of the two networks

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> Examples:
        """Grow the generator until as much is free as at first; masks and outputs for the task."""
        if self.heads:
            self.generator.grow(self.generator.widths_with_free())
        return super().begin_task(task)

    def schedule(self, phase: Phase) -> Phase:
        """The GAN's schedule, as everywhere in this library, and the classifier's steps between its own."""
        gan, task = self.options.gan, phase.key[0]
        assert isinstance(task, int)
        steps = gan.iterations_per_epoch * self.rounds.length
        made = gan.phase(task, self, phase.data, self.preview)
        return dataclasses.replace(made, steps=steps, validate=phase.validate)

    def stage_steps(self, images: Sequence[int], planned: Callable[[int], int]) -> list[int]:
        """Steps of the GAN, and of the classifier one more an iteration with each task."""
        gan = self.options.gan
        iterations = gan.epochs * gan.iterations_per_epoch
        return [gan.steps + tasks * iterations if count else 0 for tasks, count in enumerate(images, start=1)]

    def loss(self, batch: Batch) -> Losses:
        """The loss of whose turn it is in the round; held-out images are only classified."""
        if not self.training:
            return {"class": self.class_loss(batch)}
        iteration = self.rounds.iteration(self.step) - 1
        for layer in self.generator.layers:
            layer.scale = annealed(iteration, self.options.gan.iterations_per_epoch, self.largest)
        if self.rounds.is_classifiers(self.step):
            self.let_learn(self.classifier_parameters())
            return self.classifier_losses(batch)
        if self.rounds.is_generators(self.step):
            self.let_learn(self.generator.learning() + self.generator.embeddings())
            return self.generator_losses(len(batch.y))
        self.let_learn(self.critic_parameters())
        return self.critic_losses(batch)

    @property
    def largest(self) -> float:
        """The slope that this epoch ends with."""
        return largest_slope(self.epoch, self.epochs, self.options.s_max)

    def after_backward(self) -> None:
        """Frozen weights get no gradient."""
        for layer in self.generator.layers:
            layer.hold_gradients()

    def before_step(self) -> None:
        """Embeddings get the gradient they would have at s = 1."""
        for layer in self.generator.layers:
            layer.compensate(self.largest)

    def after_step(self) -> None:
        """Frozen weights are put back, bit for bit; embeddings stay in bounds."""
        for layer in self.generator.layers:
            layer.restore()
            layer.bound()

    def end_task(self, task: Task) -> None:
        """What the masks hold is frozen from now on."""
        self.generator.end_task()

    # -- the three losses --------------------------------------------------------------------------------------------

    def classifier_losses(self, batch: Batch) -> Losses:
        """As many images as ``batch`` has, of all classes seen: real where they are of the task, else generated.

        A class is drawn for each, every one as likely as any other; a draw of the past takes a real image's place.
        """
        drawn = torch.randint(self.starts[-1], (len(batch.y),)).sort().values
        past = drawn[drawn < self.starts[-2]]
        x, y = self.input(batch.x[len(past) :]), self.labels(batch)[len(past) :]
        if len(past):
            x, y = torch.cat([self.past(past), x]), torch.cat([past.to(y), y])
        return {"classifier": F.cross_entropy(self.classify(x), y)}

    def critic_losses(self, batch: Batch) -> Losses:
        """Real against generated images of the task, class by class."""
        with torch.no_grad():
            fake = self.generator(fresh_noise(batch.y), batch.y, len(self.heads) - 1)
        real, y = self.input(batch.x), batch.y
        losses = {"critic": self.critic(fake, y).mean() - self.critic(real, y).mean()}
        return losses | penalty_losses(lambda x: self.critic(x, y), real, fake, self.rounds.penalty(self.step))

    def generator_losses(self, count: int) -> Losses:
        """On ``count`` images of any class of the current task."""
        now, layers = len(self.heads) - 1, self.generator.layers
        y = torch.randint(self.starts[-1] - self.starts[-2], (count,), device=self.input.mean.device)
        fake = self.generator(fresh_noise(y), y, now)
        taken = share_taken([layer.mask(now) for layer in layers], [layer.used for layer in layers])
        price = self.options.sparsity * self.generator.growth
        return {"generator": -self.critic(fake, y).mean(), "sparsity": price * taken}

    def preview(self) -> Tensor:
        """Eight samples of every class seen, a class a row, (C, H, W) uint8: past rows never change."""
        rng = torch.Generator().manual_seed(0)
        starts = self.starts
        with evaluating(self):
            parts = [
                self.images(torch.arange(first, after).repeat_interleave(8), task, rng)
                for task, (first, after) in enumerate(pairwise(starts))
            ]
        return grid(to_pixels(torch.cat(parts), self.low))

    def report(self) -> TaskReport:
        """The generator: units (DGMa) or weights (DGMw) in use by any task, and by the newest; its bytes."""
        capacity = [
            LayerCapacity(f"generator.{index}", layer.used.numel(), int(layer.used.sum()), int(layer.held(-1).sum()))
            for index, layer in enumerate(self.generator.layers)
            if self.heads  # before the first task there are no masks
        ]
        return TaskReport(capacity, memory={"images": 0, "bytes": self.generator.kept_bytes})


def largest_slope(epoch: int, epochs: int, largest: float) -> float:
    """s_max of an epoch i of I: 1/s_max + (s_max - 1/s_max) i/I, and not below 1, where s would fall within it."""
    done = (epoch + 1) / max(1, epochs)
    return max(1.0, 1 / largest + (largest - 1 / largest) * done)
