"""Hard attention to the task, HAT (Serra, Suris, Miron and Karatzoglou, ICML 2018).

train task t:   cross-entropy of its head  +  c * sum a^t (1 - a^{<t}) / sum (1 - a^{<t})   over all units
                a^t = sigmoid(s e^t), and in batch b of the B of an epoch s = 1/s_max + (s_max - 1/s_max) (b-1)/(B-1)
end of task t:  units with e^t > 0 are in use; a weight between two units in use is frozen for good
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lockgate.backbones.base import Backbone
from lockgate.backbones.wiring import layer_problems
from lockgate.config import option
from lockgate.layers.hat import Masked, MaskedConv2d, MaskedLinear, annealed, share_taken
from lockgate.layers.init import Init
from lockgate.layers.norm import TaskNorm
from lockgate.layers.plain import LayerFactory
from lockgate.methods.base import Method
from lockgate.methods.capacity import LayerCapacity
from lockgate.methods.protocols import TaskReport
from lockgate.types import Batch, Losses, Task


@dataclass(frozen=True)
class HATOptions:
    """Options of hat; the defaults are the paper's."""

    sparsity: float = option(0.75, "Coefficient c of the regulariser on units no task used before.", ge=0)
    s_max: float = option(400.0, "Largest slope s of the masks, reached in the last step of each epoch.", gt=1)
    embedding_lr: float = option(
        1.0,
        "Learning rate of the embeddings, as a factor on the network's. AdamW does not see the size of a gradient, so "
        "under it the compensation by `s_max` speeds up nothing. Paper: 1 (SGD).",
        gt=0,
    )


class HAT(Method):
    """One network, one mask over the units of every layer, one BatchNorm and one head per task."""

    Options: ClassVar[type[Any]] = HATOptions
    class_incremental = False
    sealed = True
    """Masks are binary: what is outside of them is multiplied by zero."""
    options: HATOptions

    @classmethod
    def layer_factory(cls, init: Init, options: HATOptions) -> LayerFactory:
        """Masked layers, BatchNorm per task."""
        return LayerFactory(
            conv=functools.partial(MaskedConv2d, init=init),
            linear=functools.partial(MaskedLinear, init=init),
            norm=TaskNorm,
        )

    @classmethod
    def check_backbone(cls, backbone: Backbone) -> list[str]:
        """Every weight has to be masked, and the units on both its ends known."""
        return layer_problems(backbone, Masked)

    @property
    def masked(self) -> dict[str, Masked]:
        """The layers by name."""
        return {name: layer for name, layer in self.backbone.layers.items() if isinstance(layer, Masked)}

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def loss(self, batch: Batch) -> Losses:
        """Cross-entropy of the current head under the current mask, and the price of units never used before."""
        for layer in self.masked.values():
            layer.scale = self.scale
        return {**super().loss(batch), "sparsity": self.options.sparsity * self.regulariser()}

    @property
    def scale(self) -> float:
        """s, by how far the epoch is."""
        return annealed(self.step, self.steps, self.options.s_max)

    def regulariser(self) -> Tensor:
        """The regulariser without its coefficient: the share of units still free that the current mask takes."""
        task, layers = len(self.heads) - 1, self.masked.values()
        return share_taken([layer.mask(task) for layer in layers], [layer.used for layer in layers])

    def after_backward(self) -> None:
        """Frozen weights get no gradient."""
        for layer in self.masked.values():
            layer.hold_gradients()

    def before_step(self) -> None:
        """Embeddings get the gradient they would have at s = 1.

        After clipping: it is up to ``s_max`` times larger, and clipping it with the weights' would leave them nothing.
        """
        for layer in self.masked.values():
            layer.compensate(self.options.s_max)

    def after_step(self) -> None:
        """Frozen weights are put back, bit for bit; embeddings stay in bounds."""
        for layer in self.masked.values():
            layer.restore()
            layer.bound()

    def end_task(self, task: Task) -> None:
        """Units of the task's mask are in use from now on."""
        layers = self.masked.values()
        used = [layer.used | units for layer, units in zip(layers, self.units(task.id), strict=True)]
        for layer, units, inputs in zip(layers, used, self._below(used), strict=True):
            layer.freeze(units, inputs)

    # -- masks -------------------------------------------------------------------------------------------------------

    def units(self, task: int) -> list[Tensor]:
        """For each layer the units that ``task`` uses, (c_out,) bool."""
        return [layer.embeddings[task].detach() > 0 for layer in self.masked.values()]

    def _below(self, units: list[Tensor]) -> list[Tensor]:
        """For each layer, (c_in,) bool: ``units`` of the layer it reads from; of the image it reads all."""
        return [
            torch.ones_like(layer.used_inputs) if source is None else units[source]
            for layer, source in zip(self.masked.values(), self.backbone.sources, strict=True)
        ]

    # -- what the run asks -------------------------------------------------------------------------------------------

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Embeddings do not decay: 0 is where a mask is undecided."""
        embeddings = {p for layer in self.masked.values() for p in layer.embeddings}
        trainable = [p for p in self.parameters() if p.requires_grad]
        return [
            {"params": [p for p in trainable if p not in embeddings], "lr": lr},
            {
                "params": [p for p in trainable if p in embeddings],
                "lr": self.options.embedding_lr * lr,
                "weight_decay": 0.0,
            },
        ]

    def promised(self, task: int) -> dict[str, Tensor]:
        """Weights between units that ``task`` uses, their biases, and the embeddings, norms and head of ``task``."""
        found: dict[str, Tensor] = {}
        units = self.units(task)
        for (name, layer), mine, inputs in zip(self.masked.items(), units, self._below(units), strict=True):
            found[f"{name}.weight"] = layer.weight.detach()[mine][:, inputs]
            if layer.bias is not None:
                found[f"{name}.bias"] = layer.bias.detach()[mine]
            found[f"{name}.embeddings.{task}"] = layer.embeddings[task].detach()
        for name, module in self.backbone.named_modules():
            if isinstance(module, nn.BatchNorm2d) and name.endswith(f".{task}"):
                found.update({f"backbone.{name}.{key}": value for key, value in module.state_dict().items()})
        found.update({f"heads.{task}.{key}": value for key, value in self.heads[task].state_dict().items()})
        return found

    def report(self) -> TaskReport:
        """Units in use by any task, and by the newest; nothing before the first."""
        if not self.heads:
            return TaskReport()
        newest = self.units(len(self.heads) - 1)
        return TaskReport(
            [
                LayerCapacity(name, layer.width, int(layer.used.sum()), int(mine.sum()))
                for (name, layer), mine in zip(self.masked.items(), newest, strict=True)
            ]
        )
