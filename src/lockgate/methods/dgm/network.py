"""The networks of DGM: one masked generator that grows, and a critic whose auxiliary classifier gives the answers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lockgate.backbones.base import Backbone, Stream
from lockgate.config import option
from lockgate.layers.growing import Growing, UnitMasked, WeightMasked
from lockgate.memory.gan.acgan import NOISE
from lockgate.memory.gan.masked import MaskedGenerator
from lockgate.memory.gan.nets import make_critic, plan_generator
from lockgate.memory.gan.options import GanOptions
from lockgate.memory.gan.wgan_gp import Rounds
from lockgate.methods.base import Context
from lockgate.methods.single_head import SingleHead

MASKS: dict[str, type[Growing]] = {"w": WeightMasked, "a": UnitMasked}


@dataclass(frozen=True)
class DGMOptions:
    """Options of dgm."""

    variant: Literal["w", "a"] = option("w", "What is masked: weights (DGMw) or units (DGMa).")
    sparsity: float = option(0.75, "Price of the share of free capacity that a task's masks take.", ge=0)
    s_max: float = option(400.0, "Largest slope s of the masks, reached in the last step of each epoch.", gt=1)
    mask_lr: float = option(1.0, "Learning rate of the masks, as a factor on the GAN's.", gt=0)
    gan: GanOptions = field(default_factory=GanOptions)


class CriticTrunk(Backbone):
    """The supplement's critic without its last layer: the network that DGM learns with and answers by."""

    def __init__(self, image_shape: tuple[int, int, int], width: float) -> None:
        super().__init__()
        *trunk, score = make_critic(image_shape, width)
        assert isinstance(score, nn.Linear)
        self.net = nn.Sequential(*trunk)
        self._features = score.in_features

    @property
    def features(self) -> int:
        """Width of the last features."""
        return self._features

    def forward(self, x: Tensor, task: int) -> Stream:
        """(B, C, H, W) in the range of generated images to features (B, F); one stream for all tasks."""
        return Stream(self.net(x), ())


class DGMNetwork(SingleHead):
    """A masked generator, and a critic with one output for each class seen."""

    options: DGMOptions

    def __init__(self, context: Context) -> None:
        # The answers are the critic's, so the critic stands in for the backbone, and sees what generators make.
        options, shape = context.options, context.image_shape
        trunk = CriticTrunk(shape, options.gan.width)
        super().__init__(dataclasses.replace(context, backbone=trunk, standardise=False))
        plan = plan_generator(shape, options.gan.width)
        self.generator = MaskedGenerator(plan, MASKS[options.variant])
        self.score = nn.Linear(self.backbone.features, 1)
        self.input.mean.fill_(-plan.low / (1 - plan.low))  # from [0, 255] to [low, 1], as generated images are
        self.input.std.fill_(1 / (1 - plan.low))
        self.low = plan.low
        self.rounds = Rounds(options.gan.critic_steps, options.gan.penalty_every)

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (B, 1) and logits (B, classes seen) of images in the range of generated ones."""
        features = self.backbone(x, 0).features
        return self.score(features), torch.cat([head(features) for head in self.heads], dim=1)

    def critic(self, x: Tensor) -> Tensor:
        """Scores (B, 1)."""
        return self.both(x)[0]

    @torch.no_grad()
    def past(self, count: int) -> tuple[Tensor, Tensor]:
        """``count`` generated images with their classes among all, every past class as likely as any other."""
        starts = self.starts
        y = torch.randint(starts[-2], (count,)).sort().values
        parts = [y[(y >= first) & (y < after)] for first, after in pairwise(starts[:-1])]
        return torch.cat([self.images(part, task) for task, part in enumerate(parts)]), y.to(self.input.mean.device)

    @torch.no_grad()
    def images(self, y: Tensor, task: int, rng: torch.Generator | None = None) -> Tensor:
        """Generated images of classes ``y`` (B,) among all, which are classes of ``task``."""
        noise = torch.randn(len(y), NOISE, generator=rng).to(self.input.mean.device)
        images: Tensor = self.generator(noise, (y - self.starts[task]).to(noise.device), task)
        return images

    def critic_parameters(self) -> list[nn.Parameter]:
        """Trunk, score and auxiliary classifier."""
        return [p for module in (self.backbone, self.score, self.heads) for p in module.parameters()]

    def let_learn(self, parameters: list[nn.Parameter]) -> None:
        """Only ``parameters`` have gradients, until the next call."""
        self.requires_grad_(False)
        for parameter in parameters:
            parameter.requires_grad_(True)

    # -- what a run asks ---------------------------------------------------------------------------------------------

    def add_task(self, classes: int) -> None:
        """Masks and outputs for one more task; all outputs of the critic start anew."""
        super().add_task(classes)
        self.generator.add_task(classes)
        for head in (self.score, *self.heads):
            assert isinstance(head, nn.Linear)
            head.reset_parameters()

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Both networks; the optimiser leaves alone what has no gradient. Embeddings do not decay."""
        masks = {"params": self.generator.embeddings(), "lr": lr * self.options.mask_lr, "weight_decay": 0.0}
        return [{"params": self.critic_parameters() + self.generator.learning(), "lr": lr}, masks]

    def structure(self) -> list[dict[str, Any]]:
        """Classes of every task, and the generator's widths at its time."""
        return [{**entry, "generator": self.generator.widths(t)} for t, entry in enumerate(super().structure())]

    def rebuild_task(self, entry: dict[str, Any]) -> None:
        """Widen as the run did."""
        self.generator.grow(entry["generator"])
        super().rebuild_task(entry)
