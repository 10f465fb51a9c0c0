"""GANs that know classes: AC-GAN (Odena et al. 2017) on the WGAN-GP critic, as C-Gen trains one per task.

critic:     Wasserstein loss and penalty  - E[log P(y | real)]
generator:  -E[D(fake)]                   - E[log P(y | fake)]

Odena's critic also learns to classify what is generated. On a Wasserstein critic, whose score knows no classes, the two
then agree on a code of their own, such as a colour for a digit: the labels of generated images mean nothing (measured
on SVHN). Here the classifier learns from real images only, as in Gulrajani et al. (2017).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.memory.gan.nets import LATENT, Generator, make_critic, make_generator
from lockgate.memory.gan.wgan_gp import WGANGP, penalty_losses
from lockgate.types import Batch, Losses

LABEL = 16
"""Size of a label's embedding."""
NOISE = LATENT - LABEL
"""Size of the noise that it is joined to: together they are as long as the supplement's noise, so that every layer is
the supplement's and a generator that knows classes has the capacity of one that does not."""


class ConditionalGenerator(Generator):
    """The supplement's generator, whose last few inputs say which class to make."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int, width: float) -> None:
        plain = make_generator(image_shape, width)
        super().__init__(plain.net, plain.low)
        self.labels = nn.Embedding(classes, LABEL)

    @property
    def classes(self) -> int:
        """How many classes there are to choose from."""
        return self.labels.num_embeddings

    def code(self, noise: Tensor, y: Tensor) -> Tensor:
        """Noise (B, 112) and labels (B,) joined to the input of the network (B, 128)."""
        return torch.cat([noise, self.labels(y)], dim=1)


class ClassCritic(nn.Module):
    """The supplement's critic with two outputs on its last features: the score, and the auxiliary classifier's."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int, width: float) -> None:
        super().__init__()
        *trunk, score = make_critic(image_shape, width)
        assert isinstance(score, nn.Linear)
        self.trunk, self.score = nn.Sequential(*trunk), score
        self.classifier = nn.Linear(score.in_features, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (B, 1), all that the gradient penalty looks at."""
        return self.both(x)[0]

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (B, 1) and class logits (B, classes)."""
        features = self.trunk(x)
        return self.score(features), self.classifier(features)


class ACGAN(WGANGP):
    """A generator that is told the class, and a critic that has to find it."""

    generator: ConditionalGenerator
    critic: ClassCritic

    def generator_losses(self, batch: Batch) -> Losses:
        """On as many images as ``batch`` has, of any class."""
        y = torch.randint(self.generator.classes, (len(batch.y),), device=batch.y.device)
        return generator_losses(*self.critic.both(self.fake(y)), y)

    def critic_losses(self, batch: Batch) -> Losses:
        """On real images, and on as many generated ones of the same classes."""
        with torch.no_grad():
            fake = self.fake(batch.y)
        real = self.generator.from_pixels(batch.x)
        fake_score = self.critic(fake)
        real_score, real_class = self.critic.both(real)
        losses = {
            "critic": fake_score.mean() - real_score.mean(),
            "critic class": F.cross_entropy(real_class, batch.y),
        }
        return losses | penalty_losses(self.critic, real, fake, self.rounds.penalty(self.step))

    def fake(self, y: Tensor) -> Tensor:
        """An image of each class in ``y`` (B,)."""
        noise = torch.randn(len(y), NOISE, device=y.device)
        images: Tensor = self.generator(self.generator.code(noise, y))
        return images


def generator_losses(score: Tensor, logits: Tensor, y: Tensor) -> Losses:
    """What a generator is told by the critic's ``score`` (B, 1) and class ``logits`` of its images of classes ``y``."""
    return {"generator": -score.mean(), "generator class": F.cross_entropy(logits, y)}
