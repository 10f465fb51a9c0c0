"""Wasserstein GAN with gradient penalty (Gulrajani et al. 2017), as the supplement trains one per task.

critic:     E[D(fake)] - E[D(real)] + 10 E[(|grad D(mixed)| - 1)^2]      several steps
generator:  -E[D(fake)]                                                  then one

A generator that is stopped while it still moves fast circles around what it should be. The mean of its weights over its
last iterations is nearer to it (Yazici et al. 2019), costs nothing, and is what is kept, if ``window`` says so.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lockgate.memory.gan.nets import LATENT, Generator
from lockgate.training.phase import TrainableModule
from lockgate.types import Batch, Losses

Critic = Callable[[Tensor], Tensor]
"""Images (B, C, H, W) to scores (B, 1)."""
PENALTY = 10.0
"""Weight of the gradient penalty."""


@dataclass(frozen=True)
class Rounds:
    """Whose turn a step is: a round is ``critic_steps`` of the critic, then one of the generator."""

    critic_steps: int
    penalty_every: int
    class_steps: int = 0
    """Steps of a classifier before those of the critic, where there is one that has its own."""

    @property
    def length(self) -> int:
        """Steps of a round."""
        return self.class_steps + self.critic_steps + 1

    def is_classifiers(self, step: int) -> bool:
        """Whether the classifier alone learns in this step."""
        return step % self.length < self.class_steps

    def is_generators(self, step: int) -> bool:
        """Whether the generator learns in this step, and not the critic."""
        return step % self.length == self.length - 1

    def iteration(self, step: int) -> int:
        """How many steps the generator has made after this one, if it is one of its own."""
        return step // self.length + 1

    def penalty(self, step: int) -> float:
        """Weight of the gradient penalty in a step of the critic.

        Every few steps, and as many times stronger: the same penalty in the mean.
        """
        rounds, turn = divmod(step, self.length)
        due = (rounds * self.critic_steps + turn - self.class_steps) % self.penalty_every == 0
        return PENALTY * self.penalty_every if due else 0.0


class WGANGP(TrainableModule):
    """A generator and its critic. One step of the loop is one step of the critic or one of the generator."""

    wrapped = False  # each step moves one of the two networks; the penalty's second derivatives want fp32

    def __init__(
        self, generator: Generator, critic: nn.Module, critic_steps: int, penalty_every: int, window: int = 0
    ) -> None:
        """``window``: iterations whose mean is kept, about; 0: the last weights are."""
        super().__init__()
        self.generator, self.critic = generator, critic
        self.rounds = Rounds(critic_steps, penalty_every)
        self.window, self.mean = window, copy.deepcopy(generator) if window else None
        self.requires_grad_(False)

    @property
    def final_generator(self) -> Generator:
        """The generator that images are to be made by."""
        return self.generator if self.mean is None else self.mean

    def loss(self, batch: Batch) -> Losses:
        """The critic's loss, or in every last step of a round the generator's."""
        if self.rounds.is_generators(self.step):
            self.generator.requires_grad_(True)
            return self.generator_losses(batch)
        self.critic.requires_grad_(True)
        return self.critic_losses(batch)

    def generator_losses(self, batch: Batch) -> Losses:
        """-E[D(fake)], on as many images as ``batch`` has."""
        return {"generator": -self.critic(self.generator(self.codes(batch))).mean()}

    def critic_losses(self, batch: Batch) -> Losses:
        """E[D(fake)] - E[D(real)], and the penalty where it is due."""
        with torch.no_grad():
            fake = self.generator(self.codes(batch))[: len(batch.x)]
        real = self.generator.from_pixels(batch.x)
        losses = {"critic": self.critic(fake).mean() - self.critic(real).mean()}
        return losses | penalty_losses(self.critic, real, fake, self.rounds.penalty(self.step))

    def codes(self, batch: Batch) -> Tensor:
        """Noise for as many images as ``batch`` has, but two at least: BatchNorm cannot learn from one."""
        return torch.randn(max(2, len(batch.x)), LATENT, device=batch.x.device)

    def after_step(self) -> None:
        """Nothing here learns outside its own steps. After one of the generator, the mean follows it."""
        self.requires_grad_(False)
        if self.mean is not None and self.rounds.is_generators(self.step):
            follow(self.mean, self.generator, 1 / min(self.window, self.rounds.iteration(self.step)))

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Both networks; the optimiser leaves alone what has no gradient."""
        return [
            {"params": list(self.critic.parameters()), "lr": lr},
            {"params": list(self.generator.parameters()), "lr": lr},
        ]


@torch.no_grad()
def follow(mean: nn.Module, leader: nn.Module, share: float) -> None:
    """Move ``mean`` by ``share`` of the way to ``leader``: parameters and running statistics; counts are copied."""
    for own, new in zip(mean.state_dict().values(), leader.state_dict().values(), strict=True):
        own.lerp_(new, share) if own.is_floating_point() else own.copy_(new)


def penalty_losses(critic: Critic, real: Tensor, fake: Tensor, weight: float) -> Losses:
    """The gradient penalty with its weight; nothing where that is 0."""
    return {"penalty": weight * gradient_penalty(critic, real, fake)} if weight else {}


def gradient_penalty(critic: Critic, real: Tensor, fake: Tensor) -> Tensor:
    """E[(|grad D(mixed)| - 1)^2] where mixed = alpha real + (1 - alpha) fake, one alpha per image."""
    alpha = torch.rand(len(real), 1, 1, 1, device=real.device)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    (gradient,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    slope: Tensor = gradient.flatten(1).norm(dim=1)  # of each image
    return (slope - 1).square().mean()
