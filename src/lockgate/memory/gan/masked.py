"""A class-conditional generator that learns task after task and forgets nothing (Ostapenko et al., CVPR 2019: DGM).

The supplement's layers, masked and growing. Everything else is per task: labels, biases, BatchNorm.
"""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.layers.growing import Growing
from lockgate.layers.maps import LinearMap, TransposedMap
from lockgate.layers.norm import TaskNorm
from lockgate.layers.per_task import TaskModules
from lockgate.memory.gan.acgan import LABEL, NOISE
from lockgate.memory.gan.nets import LATENT, Crop, GeneratorPlan, last_activation


class MaskedGenerator(nn.Module):
    """Noise (B, 112) and labels (B,) of one task to images (B, C, H, W), values in [low, 1]."""

    def __init__(self, plan: GeneratorPlan, layer: type[Growing]) -> None:
        super().__init__()
        self.plan = plan
        channels, *sides = plan.first
        layers = [layer(LATENT, channels, (sides[0], sides[1]), LinearMap())]
        for up in plan.ups:
            square, last = (up.kernel, up.kernel), up is plan.ups[-1]
            layers.append(layer(layers[-1].width, up.channels, square, TransposedMap(up.stride), last))
        self._layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList()
        if plan.norm:
            widths = (math.prod(plan.first), *(up.channels for up in plan.ups[:-1]))
            self.norms.extend(TaskNorm(width) for width in widths)
        self.crops = [None, *(up.crop and Crop(*up.crop) for up in plan.ups)]
        self.activation = last_activation(plan)
        self.labels = TaskModules()
        self._free = [layer.free for layer in self.layers]
        """What growth keeps free."""

    @property
    def layers(self) -> list[Growing]:
        """The layers in order."""
        return [cast(Growing, layer) for layer in self._layers]

    @property
    def tasks(self) -> int:
        """How many tasks it has begun."""
        return len(self.labels)

    def forward(self, noise: Tensor, y: Tensor, task: int) -> Tensor:
        """Images of classes ``y`` (B,), labels of ``task``, under its masks: soft for the newest while training."""
        x = torch.cat([noise, self.labels[task](y)], dim=1)  # (B, 128)
        for index, layer in enumerate(self.layers):
            x = layer(x, task, lambda h, index=index: self._then(h, index, task))
        return x

    def _then(self, h: Tensor, index: int, task: int) -> Tensor:
        """What stands between a layer's map and its mask."""
        crop = self.crops[index]
        h = h if crop is None else crop(h)
        if index == len(self._layers) - 1:
            return cast(Tensor, self.activation(h))
        if len(self.norms):
            # The linear layer's BatchNorm is one-dimensional: each of its units is a channel.
            flat = h.flatten(1)[:, :, None, None] if index == 0 else h
            h = self.norms[index](flat, task).reshape(h.shape)
        return F.relu(h)

    def noise(self, y: Tensor) -> Tensor:
        """Fresh noise for each label."""
        return torch.randn(len(y), NOISE, device=y.device)

    # -- tasks -------------------------------------------------------------------------------------------------------

    def add_task(self, classes: int) -> None:
        """Masks, biases, BatchNorm and labels for one more task; those of earlier tasks stop learning."""
        for module in (*self._layers, *self.norms):
            cast(Growing | TaskNorm, module).add_task()
        self.labels.append(nn.Embedding(classes, LABEL))
        self.labels.freeze_past()

    def end_task(self) -> None:
        """Freeze what the newest task uses."""
        below = torch.ones(LATENT, dtype=torch.bool, device=self.layers[0].weight.device)
        for layer in self.layers:
            below = layer.freeze(below)

    def learning(self) -> list[nn.Parameter]:
        """What the newest task trains, but for its masks."""
        newest = [self.labels[-1], *(cast(TaskNorm, norm).norms[-1] for norm in self.norms)]
        parameters = [p for module in newest for p in module.parameters()]
        return [p for layer in self.layers for p in (layer.weight, layer.biases[-1])] + parameters

    def embeddings(self) -> list[nn.Parameter]:
        """The embeddings of the newest task's masks."""
        return [e for layer in self.layers for e in layer.embeddings[-1:]]

    def promised(self, task: int) -> dict[str, Tensor]:
        """What makes the images of ``task`` and never changes: weights that its masks hold, and all that is its own."""
        kept: dict[str, Tensor] = {}
        below = torch.ones(LATENT, dtype=torch.bool, device=self.layers[0].weight.device)
        for index, layer in enumerate(self.layers):
            kept[f"layers.{index}.weight"], below = layer.locked(task, below)
            kept[f"layers.{index}.bias"] = layer.biases[task].detach()
            if len(layer.embeddings):
                kept[f"layers.{index}.embedding"] = layer.embeddings[task].detach()
        own = {"labels": self.labels[task]}
        own |= {f"norms.{index}": cast(TaskNorm, norm).norms[task] for index, norm in enumerate(self.norms)}
        return kept | {f"{name}.{key}": value for name, m in own.items() for key, value in m.state_dict().items()}

    # -- growth ------------------------------------------------------------------------------------------------------

    def widths(self, task: int) -> list[int]:
        """Units of each layer at the time of ``task``."""
        return [len(layer.biases[task]) for layer in self.layers]

    def widths_with_free(self) -> list[int]:
        """The widths at which every layer has as much free as it had at first."""
        widths: list[int] = []
        for layer, wanted in zip(self.layers, self._free, strict=True):
            widths.append(layer.width_with_free(wanted, widths[-1] if widths else LATENT))
        return widths

    def grow(self, widths: list[int]) -> None:
        """Widen every layer to ``widths``; images of past tasks stay what they were, to the bit."""
        c_in = LATENT
        for layer, width in zip(self.layers, widths, strict=True):
            layer.grow(width, c_in)
            c_in = width
        for index, norm in enumerate(self.norms):
            positions = math.prod(self.plan.first[1:]) if index == 0 else 1
            cast(TaskNorm, norm).channels = widths[index] * positions

    @property
    def kept_bytes(self) -> int:
        """Parameters in single precision, as the paper counts them: no critic, no buffers, and no masks."""
        masks = {e for layer in self.layers for e in layer.embeddings}
        return sum(p.numel() for p in self.parameters() if p not in masks) * 4
