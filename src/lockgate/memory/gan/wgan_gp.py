"""Wasserstein GAN with gradient penalty (Gulrajani et al. 2017), as the supplement trains one per task.

critic:     E[D(fake)] - E[D(real)] + 10 E[(|grad D(mixed)| - 1)^2]      several steps
generator:  -E[D(fake)]                                                  then one
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lockgate.memory.gan.nets import LATENT, Generator
from lockgate.trainee import Trainee
from lockgate.types import Batch, Losses

PENALTY = 10.0
"""Weight of the gradient penalty."""


class WGANGP(Trainee):
    """A generator and its critic. One step of the engine is one step of the critic or one of the generator."""

    wrapped = False  # each step moves one of the two networks; the penalty's second derivatives want fp32

    def __init__(self, generator: Generator, critic: nn.Module, critic_steps: int, penalty_every: int) -> None:
        super().__init__()
        self.generator, self.critic = generator, critic
        self.critic_steps, self.penalty_every = critic_steps, penalty_every
        self.requires_grad_(False)

    def loss(self, batch: Batch) -> Losses:
        """The critic's loss, or in every last step of a round the generator's."""
        turn = self.step % (self.critic_steps + 1)
        z = torch.randn(len(batch.x), LATENT, device=batch.x.device)
        if turn == self.critic_steps:
            self.generator.requires_grad_(True)
            return {"generator": -self.critic(self.generator(z)).mean()}
        self.critic.requires_grad_(True)
        with torch.no_grad():
            fake = self.generator(z)
        real = self.generator.from_pixels(batch.x)
        losses = {"critic": self.critic(fake).mean() - self.critic(real).mean()}
        rounds = self.step // (self.critic_steps + 1)
        if (rounds * self.critic_steps + turn) % self.penalty_every == 0:
            # Every few steps, and as many times stronger: the same penalty in the mean.
            losses["penalty"] = PENALTY * self.penalty_every * gradient_penalty(self.critic, real, fake)
        return losses

    def after_step(self) -> None:
        """Nothing here learns outside its own steps."""
        self.requires_grad_(False)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Both networks; the optimiser leaves alone what has no gradient."""
        return [
            {"params": list(self.critic.parameters()), "lr": lr},
            {"params": list(self.generator.parameters()), "lr": lr},
        ]


def gradient_penalty(critic: nn.Module, real: Tensor, fake: Tensor) -> Tensor:
    """E[(|grad D(mixed)| - 1)^2] where mixed = alpha real + (1 - alpha) fake, one alpha per image."""
    alpha = torch.rand(len(real), 1, 1, 1, device=real.device)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    (gradient,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    slope: Tensor = gradient.flatten(1).norm(dim=1)  # of each image
    return (slope - 1).square().mean()
