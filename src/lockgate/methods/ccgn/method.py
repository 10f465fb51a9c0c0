"""Conditional channel gated networks (Abati et al., CVPR 2020), multi-head learning of class labels: Section 3.2.

train task t:   cross-entropy of its head on its stream  +  sparsity of its gates (Eq. 5, after a patience)
end of task t:  relevance on held-out data (Eq. 6) -> lock relevant filters -> re-initialise the rest -> seal
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from lockgate.backbones.base import Backbone
from lockgate.backbones.wiring import channel_problems, layer_problems
from lockgate.config import option
from lockgate.layers.gate import OPEN_BIAS, ChannelGate
from lockgate.layers.gated import Gated, GatedConv2d, GatedLinear
from lockgate.layers.init import Init
from lockgate.layers.norm import TaskNorm
from lockgate.layers.per_task import task_modules
from lockgate.layers.plain import LayerFactory
from lockgate.methods.base import Context, Method
from lockgate.methods.capacity import LayerCapacity, all_shut, nearly_full
from lockgate.methods.ccgn.objective import below_chance, sparsity
from lockgate.training import distributed
from lockgate.training.phase import evaluating
from lockgate.types import Batch, Examples, Losses, Task

BATCH = 512
"""Images per pass when gates are counted."""


@dataclass(frozen=True)
class CCGNOptions:
    """Options of ccgn. Defaults fit short schedules; the `paper` preset sets the paper's."""

    sparsity: float = option(1.0, "Coefficient lambda_s of the sparsity objective (Eq. 5). Paper: 0.5 or 1.", ge=0)
    patience: int = option(1, "Epochs before the sparsity objective sets in. Paper: 0 to 20.", ge=0)
    earned: bool = option(
        False,
        "While training, weigh the sparsity objective by how far the class loss is below chance: gates close as the "
        "task is learnt, and not before.",
    )
    gate_lr: float = option(3.0, "Learning rate of gates, as a factor on the network's. Paper: 1 (400 epochs).", gt=0)
    open_bias: float = option(OPEN_BIAS, "Start of the gates' last bias; positive: gates start open.")
    anneal: float = option(
        0.0,
        "Share of a task's steps, at its end, in which gates decide without noise, the sparsity objective rests and "
        "statistics of BatchNorm are held.",
        ge=0,
        lt=1,
    )
    prune: float = option(
        0.0,
        "While sparsity is at work, stop computing filters whose gates fired for less than this share of the images of "
        "`look` steps; 0: compute all. What is parked when the task settles stays shut.",
        ge=0,
        lt=1,
    )
    look: int = option(100, "Steps between two looks at which filters to park.", ge=1)
    threshold: float = option(
        0.0, "A filter is relevant when it fires for more than this share of the held-out images. Paper: 0.", ge=0, lt=1
    )
    seal: bool = option(True, "Keep a past task's gates inside its relevant set for ever. False: the paper as printed.")
    grow: float = option(
        0.0, "Widen layers so that each task begins with this share of the first width free; 0: never.", ge=0
    )
    offer: float = option(
        0.0, "Of the filters that are free, a task may open this share of the first width at most; 0: all.", ge=0, le=1
    )
    warn_below: float = option(0.1, "Warn when less than this share of a layer is free after a task.", ge=0, le=1)


class CCGN(Method):
    """Gated backbone, one gate per layer and task, one head per task."""

    Options: ClassVar[type[Any]] = CCGNOptions
    class_incremental = False
    options: CCGNOptions
    prune_step: Tensor
    prune_sparse: Tensor

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.base_widths = self.backbone.widths()
        self._widths: list[list[int]] = []  # of every set of channels, when each task began
        self._reported: list[LayerCapacity] = []
        self._fired: dict[str, list[float]] = {}
        self.register_buffer("prune_step", torch.tensor(-1))  # the step of the last look at what to park
        self.register_buffer("prune_sparse", torch.tensor(False))  # whether sparsity was at work then
        self.register_load_state_dict_post_hook(lambda module, _: module.wire())  # type: ignore[no-untyped-call]

    @classmethod
    def layer_factory(cls, init: Init, options: CCGNOptions) -> LayerFactory:
        """Gated layers, BatchNorm per task."""
        return LayerFactory(
            conv=functools.partial(GatedConv2d, init=init, open_bias=options.open_bias),
            linear=functools.partial(GatedLinear, init=init, open_bias=options.open_bias),
            norm=TaskNorm,
        )

    @classmethod
    def check_backbone(cls, backbone: Backbone) -> list[str]:
        """Every filter has to be gated, and who reads and writes which channels known."""
        return layer_problems(backbone, Gated) or channel_problems(backbone)

    @property
    def gated(self) -> dict[str, Gated]:
        """The gated layers by name, in the order of the stream's gates."""
        return {name: layer for name, layer in self.backbone.layers.items() if isinstance(layer, Gated)}

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> Examples:
        """Widen full layers if asked to, then add a gate per layer and a head."""
        if self.options.grow and self.heads:
            self.backbone.grow(self.backbone.widths_with_free(self.options.grow, self.base_widths))
        examples = super().begin_task(task)
        if self.options.offer:  # steps are cheap from the first one on
            for group, width in zip(self.backbone.channels, self.base_widths, strict=True):
                group.offer(task.id, math.ceil(self.options.offer * width))
            self.wire([task.id])
        return examples

    def loss(self, batch: Batch) -> Losses:
        """Cross-entropy of the current head on the current stream, and Eq. 5 once the patience is over."""
        task = len(self.heads) - 1
        if self.training and self.options.prune and self.step % self.options.look == 0 and self.step != self.prune_step:
            self.prune(task)
        for layer in self.gated.values():
            layer.gate(task).noisy = not self.annealing
        with evaluating(*(self.norms(task) if self.annealing else [])):
            stream = self.backbone(self.input(batch.x), task)
        losses = {"class": self.cross_entropy(self.heads[task](stream.features), batch.y)}
        if self.epoch >= self.options.patience and not self.annealing:
            losses["sparsity"] = self.options.sparsity * sparsity(stream.gates)
            if self.options.earned and self.training:
                classes = cast(nn.Linear, self.heads[task]).out_features
                losses["sparsity"] = losses["sparsity"] * below_chance(losses["class"], classes)
        return losses

    @property
    def annealing(self) -> bool:
        """Whether the task is near its end: gates decide without noise, sparsity rests, and statistics stand still.

        Statistics lag behind weights that move. What is learnt under lagging ones is lost when, at the end, the weights
        stand still and the statistics catch up; so they are held, and the weights follow.
        """
        return self.progress >= 1 - self.options.anneal

    def norms(self, task: int) -> list[nn.Module]:
        """Every BatchNorm of a task's stream, those of its gates included."""
        gates = [layer.gate(task).norm for layer in self.gated.values()]
        return [*gates, *(norm.norms[task] for group in self.backbone.channels for norm in group.norms)]

    def after_backward(self) -> None:
        """Locked filters get no gradient."""
        for layer in self.gated.values():
            layer.hold_gradients()

    def after_step(self) -> None:
        """Locked filters are put back, bit for bit."""
        for layer in self.gated.values():
            layer.restore()

    def end_task(self, task: Task) -> None:
        """Relevance (Eq. 6), lock, re-initialise, seal."""
        relevance = self.firing(task.val.x, task.id)
        self._fired = {name: score.tolist() for name, score in zip(self.gated, relevance, strict=True)}
        for layer in self.gated.values():
            if not self.options.seal:  # what was parked has been shut in training: it must not open now
                layer.seal(~layer.gate(task.id).pruned, task.id)
            layer.gate(task.id).unprune()
        self.prune_step.fill_(-1)
        self.prune_sparse.fill_(False)
        self._reported = []
        for (name, layer), score in zip(self.gated.items(), relevance, strict=True):
            relevant = (score > self.options.threshold).to(layer.weight.device)
            layer.lock(relevant, task.id)
            layer.reinitialise_free()
            if self.options.seal:
                layer.seal(relevant, task.id)
            self._reported.append(LayerCapacity(name, layer.width, int(layer.locked.sum()), int(relevant.sum())))
        self.wire([task.id])
        self.requires_grad_(False)

    # -- parking -----------------------------------------------------------------------------------------------------

    def prune(self, task: int) -> None:
        """Now and then, park what stayed silent since the last look, if sparsity was at work all the time.

        While settling nothing comes back: with sparsity at rest, gates would open again that it had shut.
        """
        for layer in self.gated.values():
            layer.gate(task).prune(self.options.prune if self.prune_sparse else 0.0, for_good=self.annealing)
        self.prune_step.fill_(self.step)
        self.prune_sparse.fill_(self.epoch >= self.options.patience)
        self.wire([task])

    def wire(self, tasks: Iterable[int] | None = None) -> None:
        """Tell every layer which channels the streams of ``tasks`` (all of them) read and write."""
        for task in range(len(self.heads)) if tasks is None else tasks:
            for group in self.backbone.channels:
                group.route(task)

    # -- gates -------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def firing(self, x: Tensor, task: int) -> list[Tensor]:
        """For each layer, how often each gate of ``task``'s stream fires on images ``x``, (c_out,): fires / images."""
        fires: list[Tensor] = []
        with evaluating(self):
            for part in torch.split(x, BATCH):
                gates = self.backbone(self.input(part.to(self.input.mean.device)), task).gates
                counts = [gate.sum(0, dtype=torch.float32) for gate in gates]
                fires = [a + b for a, b in zip(fires, counts, strict=True)] if fires else counts
        # Divided on the CPU: not every device knows float64.
        return [distributed.from_rank_zero(count).cpu().double() / len(x) for count in fires]

    # -- what the run asks -------------------------------------------------------------------------------------------

    def add_task(self, classes: int) -> None:
        """Gates, norms and a head for one more task; everything of past tasks stops learning."""
        self._widths.append(self.backbone.widths())
        for layer in self.gated.values():
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

    @property
    def first_selectable_epoch(self) -> int:
        """Before the patience is over all gates are open: those epochs are no candidates."""
        return self.options.patience

    def _apply(self, fn: Any, recurse: bool = True) -> CCGN:
        """Moving to another device: the channels that streams read and write move too."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.wire()
        return self

    def structure(self) -> list[dict[str, Any]]:
        """Classes and widths of every task."""
        return [{**entry, "widths": w} for entry, w in zip(super().structure(), self._widths, strict=True)]

    def rebuild(self, structure: list[dict[str, Any]]) -> None:
        """As any learner; past tasks do not learn."""
        super().rebuild(structure)
        self.requires_grad_(False)

    def rebuild_task(self, entry: dict[str, Any]) -> None:
        """Widen as the run did."""
        self.backbone.grow(entry["widths"])
        super().rebuild_task(entry)

    def kept(self, task: int) -> dict[str, Tensor]:
        """Locked filters, gates, norms and the head of ``task``."""
        kept: dict[str, Tensor] = {}
        for name, layer in self.gated.items():
            kept.update({f"{name}.{key}": rows for key, rows in layer.locked_by(task).items()})
        for name, modules in task_modules(self.backbone):  # gates and norms
            kept.update({f"backbone.{name}.{task}.{key}": v for key, v in modules[task].state_dict().items()})
        kept.update({f"heads.{task}.{key}": value for key, value in self.heads[task].state_dict().items()})
        return kept

    @property
    def sealed(self) -> bool:
        """Without the seal, a past gate may open a filter that was trained later."""
        return self.options.seal

    def fired(self) -> dict[str, list[float]]:
        """The relevance of Eq. 6, as it was at the end of the task."""
        return self._fired

    def capacity(self) -> list[LayerCapacity]:
        """Filters used and relevant after the task that has just ended."""
        return self._reported

    def warnings(self) -> list[str]:
        """Layers that are nearly full, or whose gates are all shut."""
        full = [] if self.options.grow else nearly_full(self._reported, self.options.warn_below)
        return [*full, *all_shut(self._reported)]
