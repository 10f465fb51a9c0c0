"""Dynamic generative memory, DGM (Ostapenko, Puscas, Klein, Jaehnichen and Nabi, CVPR 2019).

One class-conditional generator for all tasks, under masks that harden within each epoch; one critic, whose auxiliary
classifier gives the answers. In task t, with real images of it and generated ones ("fake") of it and of the past:

critic:         Wasserstein loss and penalty, real and fake of task t
                - E[log P(y | x)] over all classes seen alike: x real of task t, fake of the past        several steps
generator:      -E[D(fake)] - E[log P(y | fake)] + sparsity * share of what is free that the masks take  then one
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
from lockgate.memory.gan.acgan import generator_losses
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
        """The GAN's schedule, as everywhere in this library, instead of the experiment's epochs and optimiser."""
        task = phase.key[0]
        assert isinstance(task, int)
        return dataclasses.replace(
            self.options.gan.phase(task, self, phase.data, self.preview), validate=phase.validate
        )

    def stage_steps(self, images: Sequence[int], planned: Callable[[int], int]) -> list[int]:
        """Steps of the GAN."""
        return [self.options.gan.steps if count else 0 for count in images]

    def loss(self, batch: Batch) -> Losses:
        """The critic's loss, or in every last step of a round the generator's; held-out images are only classified."""
        if not self.training:
            return {"class": self.class_loss(batch)}
        for layer in self.generator.layers:
            layer.scale = annealed(self.step, self.steps, self.options.s_max)
        if self.rounds.is_generators(self.step):
            self.let_learn(self.generator.learning() + self.generator.embeddings())
            return self.generator_losses(len(batch.y))
        self.let_learn(self.critic_parameters())
        return self.critic_losses(batch)

    def after_backward(self) -> None:
        """Frozen weights get no gradient."""
        for layer in self.generator.layers:
            layer.hold_gradients()

    def before_step(self) -> None:
        """Embeddings get the gradient they would have at s = 1."""
        for layer in self.generator.layers:
            layer.compensate(self.options.s_max)

    def after_step(self) -> None:
        """Frozen weights are put back, bit for bit; embeddings stay in bounds."""
        for layer in self.generator.layers:
            layer.restore()
            layer.bound()

    def end_task(self, task: Task) -> None:
        """What the masks hold is frozen from now on."""
        self.generator.end_task()

    # -- the two losses ----------------------------------------------------------------------------------------------

    def critic_losses(self, batch: Batch) -> Losses:
        """Real against generated images of the task; classes on real ones of the task and generated ones of the past.

        Every class seen weighs the same, however many images of it there are.
        """
        now, starts = len(self.heads) - 1, self.starts
        with torch.no_grad():
            fake = self.generator(self.generator.noise(batch.y), batch.y, now)
        real = self.input(batch.x)
        real_score, real_class = self.both(real)
        losses = {"critic": self.critic(fake).mean() - real_score.mean()}
        class_loss = F.cross_entropy(real_class, self.labels(batch))
        if now:
            x, y = self.past(len(batch.y))
            share = starts[now] / starts[-1]
            class_loss = (1 - share) * class_loss + share * F.cross_entropy(self.both(x)[1], y)
        losses["critic class"] = class_loss
        return losses | penalty_losses(self.critic, real, fake, self.rounds.penalty(self.step))

    def generator_losses(self, count: int) -> Losses:
        """On ``count`` images of any class of the current task."""
        now, layers = len(self.heads) - 1, self.generator.layers
        y = torch.randint(self.starts[-1] - self.starts[-2], (count,), device=self.input.mean.device)
        score, logits = self.both(self.generator(self.generator.noise(y), y, now))
        masked = [layer for layer in layers if len(layer.embeddings)]
        taken = share_taken([layer.mask(now) for layer in masked], [layer.used for layer in masked])
        return {
            **generator_losses(score, logits, y + self.starts[-2]),
            "sparsity": self.options.sparsity * taken,
        }

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
            LayerCapacity(
                f"generator.{index}", layer.used.numel(), int(layer.used.sum()), int((layer.embeddings[-1] > 0).sum())
            )
            for index, layer in enumerate(self.generator.layers)
            if len(layer.embeddings)
        ]
        return TaskReport(capacity, memory={"images": 0, "bytes": self.generator.kept_bytes})
