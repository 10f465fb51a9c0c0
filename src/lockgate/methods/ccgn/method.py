"""Conditional channel gated networks (Abati et al., CVPR 2020), multi-head learning of class labels: Section 3.2.

train task t:   cross-entropy of its head on its stream  +  sparsity of its gates (Eq. 5)
end of task t:  relevance on held-out data (Eq. 6) -> lock relevant filters -> re-initialise the rest -> seal
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from torch import Tensor, nn

from lockgate.backbones.base import Backbone, widths_with_free
from lockgate.backbones.foreign import ForeignBackbone, adapt
from lockgate.backbones.wiring import channel_problems, layer_problems
from lockgate.layers.gate import ChannelGate
from lockgate.layers.gated import Gated, GatedConv2d, GatedLinear
from lockgate.layers.init import Init
from lockgate.layers.lock import Lockable
from lockgate.layers.norm import TaskNorm
from lockgate.layers.per_task import task_modules
from lockgate.layers.plain import LayerFactory
from lockgate.methods.base import Context
from lockgate.methods.capacity import LayerCapacity, all_shut, nearly_full
from lockgate.methods.ccgn.budget import Budget
from lockgate.methods.ccgn.companion import Accompanied
from lockgate.methods.ccgn.consolidation import consolidate, forget_shut, relevance
from lockgate.methods.ccgn.gating import deciding, gated_layers
from lockgate.methods.ccgn.objective import objective
from lockgate.methods.ccgn.options import CCGNOptions
from lockgate.methods.ccgn.pruning import Moment, Pruning
from lockgate.methods.ccgn.recalibration import recalibrate
from lockgate.methods.ccgn.start import begin_as
from lockgate.methods.ccgn.warmup import (
    Warmup,
    is_annealing,
    narrowing,
    sparsity_share,
    steps_to_hold,
    warmup_epochs,
)
from lockgate.methods.protocols import TaskReport
from lockgate.types import Batch, Examples, Losses, Task


class CCGN(Accompanied):
    """Gated backbone, one gate per layer and task, one head per task."""

    Options: ClassVar[type[Any]] = CCGNOptions
    version: ClassVar[int] = 6
    """1: Lockgate 0.1. 2: budget, read-out. 3: quiet warm-up, read-out of held-out images; of what is derived, too.
    4: streams begin as a companion. 5: statistics of images as they are, where they were varied. 6: room comes down to
    a budget little by little."""
    without_budget: ClassVar[int] = 5
    """Of an experiment without a budget, which 6 does not concern: it learns the same bits."""
    class_incremental = False
    options: CCGNOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.gated = gated_layers(self.backbone)
        self.lockable = [layer for layer in self.gated.values() if isinstance(layer, Lockable)]
        self.first_widths = self.backbone.widths()
        self.warmup = Warmup(self.options)
        self.pruning = Pruning(self.options.prune)
        self.expected = context.tasks
        self.budget: Budget | None = None
        if share := self.options.budget:
            layers, channels = list(self.gated.values()), self.backbone.channels
            self.budget = Budget(layers, channels, share, self.options.sparsity, self.options.head_start)
        self._capacity: list[LayerCapacity] = []
        self._fired: dict[str, list[float]] = {}
        self.register_load_state_dict_post_hook(lambda module, _: module.backbone.route(range(len(module.heads))))  # type: ignore[no-untyped-call]

    @classmethod
    def version_of(cls, options: Mapping[str, Any]) -> int:
        """Of the last change that concerns an experiment of these options."""
        return cls.version if options["budget"] else cls.without_budget

    @classmethod
    def layer_factory(cls, init: Init, options: CCGNOptions) -> LayerFactory:
        """Gated layers, BatchNorm per task."""
        return LayerFactory(
            conv=functools.partial(GatedConv2d, init=init, open_bias=options.open_bias),
            linear=functools.partial(GatedLinear, init=init, open_bias=options.open_bias),
            norm=TaskNorm,
            adapt=adapt,
        )

    @classmethod
    def check_backbone(cls, backbone: Backbone) -> list[str]:
        """Every filter has to be gated, and who reads and writes which channels known; or all of it is frozen."""
        if isinstance(backbone, ForeignBackbone):
            return []
        return layer_problems(backbone, Gated) or channel_problems(backbone)

    # -- hooks -------------------------------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> Examples:
        """Widen full layers if asked to, then add a gate per layer and a head; begin as the companion stands."""
        if self.options.grow and self.heads:
            self.backbone.grow(widths_with_free(self.backbone.channels, self.options.grow, self.first_widths))
        self.warmup.begin_task()
        if self.budget is not None:
            self.budget.begin_task(len(self.heads), self.expected, self.options.grow)
        current = super().begin_task(task)
        if self.companion is not None and len(self.heads) > 1:
            begin_as(self.backbone, self.companion, len(self.heads) - 1)
        return current

    def loss(self, batch: Batch) -> Losses:
        """Eq. 3 with the task given, and Eq. 5."""
        task, annealing = len(self.heads) - 1, is_annealing(self.options, self.progress)
        at = self.moment(len(batch.y), annealing)
        if self.training and self.pruning.update(list(self.gated.values()), task, at, self.budget):
            self.backbone.route([task])
        with deciding(self.backbone, task, annealing, noisy=not (annealing or self.warmup.quiet)):
            stream = self.backbone(self.input(batch.x), task)
        head = cast(nn.Linear, self.heads[task])
        class_loss = self.cross_entropy(head(stream.features), batch.y)
        if self.training:
            self.warmup.update(class_loss, head.out_features)
        takes_part = at.sparse and not annealing and bool(stream.gates)
        share = sparsity_share(self.options, class_loss, head.out_features, self.training)
        if self.budget is None or not takes_part:
            losses = objective(class_loss, stream.gates, self.options.sparsity * share if takes_part else None)
            return losses | self.accompany(batch)
        if self.training:
            self.budget.update(stream.gates)
        sparsity = share * self.budget.loss(stream.gates)
        return {"class": class_loss, "sparsity": sparsity} | self.accompany(batch)

    def moment(self, images: int, annealing: bool) -> Moment:
        """Where in the task a step of so many images is."""
        now = self.options, self.step, self.steps, self.epochs
        down = narrowing(*now, len(self.gated)) if self.budget is not None else 0.0
        sparse = self.warmup.over(self.epoch, self.epochs, down)
        return Moment(self.step, images, sparse, annealing, 0 if annealing else steps_to_hold(*now), down)

    @property
    def first_selectable_epoch(self) -> int:
        """Before the sparsity objective sets in all gates are open: those epochs are no candidates.

        Nor are those before a budget is held, since they may be above it.
        """
        if not self.gated:
            return 0
        warmup = warmup_epochs(self.options, self.epochs)
        if self.budget is None:
            return warmup
        return max(warmup, min(self.epochs - 1, math.ceil(self.epochs * (1 - self.options.anneal))))

    def after_backward(self) -> None:
        """Locked filters get no gradient."""
        for layer in self.lockable:
            layer.hold_gradients()

    def after_step(self) -> None:
        """Locked filters are put back, bit for bit."""
        for layer in self.lockable:
            layer.restore()

    def end_task(self, task: Task) -> None:
        """Relevance (Eq. 6), lock, re-initialise, seal; before that, statistics of images as they are."""
        if self.augment.of_task().active and not isinstance(self.backbone, ForeignBackbone):
            recalibrate(self, task.train, task.id)
        scores = relevance(self, task.val.x, task.id)
        self._fired = {name: score.tolist() for name, score in zip(self.gated, scores, strict=True)}
        self.pruning.end_task(self.gated.values(), task.id, self.options.seal)
        self._capacity = consolidate(self.gated, scores, task.id, self.options.seal)
        self.backbone.route([task.id])
        if self.options.seal:
            forget_shut(self, task.id)
        self.requires_grad_(False)

    # -- the network -------------------------------------------------------------------------------------------------

    def add_task(self, classes: int) -> None:
        """Gates, norms and a head for one more task; everything of past tasks stops learning."""
        for layer in self.lockable:
            layer.weight.requires_grad_(True)
            if layer.bias is not None:
                layer.bias.requires_grad_(True)
        super().add_task(classes)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Gates have a learning rate of their own: on short schedules they would not close otherwise."""
        gates = {p for m in self.modules() if isinstance(m, ChannelGate) for p in m.parameters()}
        trainable = [p for p in self.parameters() if p.requires_grad]
        return [
            {"params": [p for p in trainable if p not in gates], "lr": lr},
            {"params": [p for p in trainable if p in gates], "lr": lr * self.options.gate_lr},
        ]

    def rebuild(self, structure: list[dict[str, Any]]) -> None:
        """As any method; past tasks do not learn."""
        super().rebuild(structure)
        self.requires_grad_(False)

    # -- what a run may ask ------------------------------------------------------------------------------------------

    @property
    def sealed(self) -> bool:
        """Without the seal, a past gate may open a filter that was trained later."""
        return self.options.seal

    def promised(self, task: int) -> dict[str, Tensor]:
        """Locked filters, gates, norms and the head of ``task``; with the first, all that was given."""
        found: dict[str, Tensor] = {}
        for name, layer in self.gated.items():
            if isinstance(layer, Lockable):
                found.update({f"{name}.{key}": rows for key, rows in layer.locked_by(task).items()})
        if task == 0:
            found.update({f"backbone.{name}": value for name, value in self.backbone.constants().items()})
        for name, modules in task_modules(self.backbone):  # gates and norms
            found.update({f"backbone.{name}.{task}.{key}": v for key, v in modules[task].state_dict().items()})
        found.update({f"heads.{task}.{key}": value for key, value in self.heads[task].state_dict().items()})
        return found

    def report(self) -> TaskReport:
        """Filters used, gates that fire, and layers that are nearly full or all shut."""
        full = [] if self.options.grow else nearly_full(self._capacity)
        return TaskReport(self._capacity, self._fired, [*full, *all_shut(self._capacity)])
