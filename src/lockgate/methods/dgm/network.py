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
from lockgate.errors import CheckpointError
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
    sparsity: float = option(
        0.08, "Price of the share of free capacity that a task's masks take, in a generator that has not grown.", ge=0
    )
    s_max: float = option(1e4, "Largest slope s of the masks, reached in the last step of the last epoch.", gt=1)
    mask_lr: float = option(1.0, "Learning rate of the masks, as a factor on the GAN's.", gt=0)
    gan: GanOptions = field(default_factory=GanOptions)


class CriticTrunk(Backbone):
    """The supplement's critic without its last layer: the network that DGM learns with and answers by."""

    def __init__(self, image_shape: tuple[int, int, int], width: float) -> None:
        super().__init__()
        self._made = (image_shape, width)
        *trunk, score = make_critic(image_shape, width)
        assert isinstance(score, nn.Linear)
        self.net = nn.Sequential(*trunk)
        self._features = score.in_features

    def forward(self, x: Tensor, task: int) -> Stream:
        """(B, C, H, W) in the range of generated images to features (B, F); one stream for all tasks."""
        return Stream(self.net(x), ())

    def start_anew(self) -> None:
        """Forget everything."""
        self.net.load_state_dict(CriticTrunk(*self._made).net.state_dict())


class DGMNetwork(SingleHead):
    """A masked generator, and a critic with one output for each class seen."""

    options: DGMOptions
    backbone: CriticTrunk
    score: nn.Linear
    """One score for each class of the newest task."""

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

    @property
    def rounds(self) -> Rounds:
        """An iteration has as many steps of the classifier as there are tasks, then those of any GAN here."""
        gan = self.options.gan
        return Rounds(gan.critic_steps, gan.penalty_every, class_steps=len(self.heads))

    def critic(self, x: Tensor, y: Tensor) -> Tensor:
        """Scores (B, 1) of images in the range of generated ones, each as one of its class ``y`` (B,) of the task."""
        scores: Tensor = self.score(self.backbone(x, 0).features)
        return scores.gather(1, y[:, None])

    def classify(self, x: Tensor) -> Tensor:
        """Logits (B, classes seen) of images in the range of generated ones."""
        features = self.backbone(x, 0).features
        return torch.cat([head(features) for head in self.heads], dim=1)

    @torch.no_grad()
    def past(self, y: Tensor) -> Tensor:
        """Generated images of past classes ``y`` (B,), in ascending order, among all."""
        parts = [y[(y >= first) & (y < after)] for first, after in pairwise(self.starts[:-1])]
        return torch.cat([self.images(part, task) for task, part in enumerate(parts)])

    @torch.no_grad()
    def images(self, y: Tensor, task: int, rng: torch.Generator | None = None) -> Tensor:
        """Generated images of classes ``y`` (B,) among all, which are classes of ``task``."""
        noise = torch.randn(len(y), NOISE, generator=rng).to(self.input.mean.device)
        images: Tensor = self.generator(noise, (y - self.starts[task]).to(noise.device), task)
        return images

    def classifier_parameters(self) -> list[nn.Parameter]:
        """Trunk and auxiliary classifier."""
        return [*self.backbone.parameters(), *self.heads.parameters()]

    def critic_parameters(self) -> list[nn.Parameter]:
        """Trunk and score."""
        return [*self.backbone.parameters(), *self.score.parameters()]

    def let_learn(self, parameters: list[nn.Parameter]) -> None:
        """Only ``parameters`` have gradients, until the next call."""
        self.requires_grad_(False)
        for parameter in parameters:
            parameter.requires_grad_(True)

    # -- what a run asks ---------------------------------------------------------------------------------------------

    def add_task(self, classes: int) -> None:
        """Masks and outputs for one more task; the critic starts anew, all of it."""
        super().add_task(classes)
        self.generator.add_task(classes)
        self.score = nn.Linear(self.backbone.features, classes, device=self.score.weight.device)
        if len(self.heads) > 1:
            self.backbone.start_anew()
            for head in self.heads:
                assert isinstance(head, nn.Linear)
                head.reset_parameters()

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Both networks; the optimiser leaves alone what has no gradient. Embeddings do not decay."""
        masks = {"params": self.generator.embeddings(), "lr": lr * self.options.mask_lr, "weight_decay": 0.0}
        learning = [*self.classifier_parameters(), *self.score.parameters(), *self.generator.learning()]
        return [{"params": learning, "lr": lr}, masks]

    def structure(self) -> list[dict[str, Any]]:
        """Classes of every task, and the generator's widths at its time."""
        return [{**entry, "generator": self.generator.widths(t)} for t, entry in enumerate(super().structure())]

    def rebuild_task(self, entry: dict[str, Any]) -> None:
        """Widen as the run did."""
        widths, layers = entry["generator"], len(self.generator.layers)
        if len(widths) != layers:
            raise CheckpointError(
                f"This run of dgm has a generator of {len(widths)} masked layers, as an earlier Lockgate made it; "
                f"today's has {layers} and an output layer per class. Use the version that wrote it, or run it anew."
            )
        self.generator.grow(widths)
        super().rebuild_task(entry)
