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
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.backbones.base import Backbone, Stream
from lockgate.config import option
from lockgate.layers.growing import Growing, UnitMasked, WeightMasked
from lockgate.layers.hat import annealed, share_taken
from lockgate.memory.gan.acgan import NOISE, generator_losses
from lockgate.memory.gan.masked import MaskedGenerator
from lockgate.memory.gan.nets import grid, make_critic, plan_generator, to_pixels
from lockgate.memory.gan.options import GanOptions
from lockgate.memory.gan.wgan_gp import Rounds, penalty_losses
from lockgate.methods.base import Context
from lockgate.methods.capacity import LayerCapacity
from lockgate.methods.protocols import TaskReport
from lockgate.methods.single_head import SingleHead
from lockgate.training.phase import Phase, evaluating
from lockgate.types import Batch, Examples, Losses, Task

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


class DGM(SingleHead):
    """A generator that forgets nothing, and a critic that is rehearsed from it."""

    Options: ClassVar[type[Any]] = DGMOptions
    wrapped = False  # as in WGAN-GP: each step moves one of the two networks
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
            self._let_learn(self.generator.learning() + self.generator.embeddings())
            return self.generator_losses(len(batch.y))
        self._let_learn(self.critic_parameters())
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

    # -- what they are made of ---------------------------------------------------------------------------------------

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

    def _let_learn(self, parameters: list[nn.Parameter]) -> None:
        self.requires_grad_(False)
        for parameter in parameters:
            parameter.requires_grad_(True)

    # -- what the run asks -------------------------------------------------------------------------------------------

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
