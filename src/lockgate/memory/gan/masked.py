"""A class-conditional generator that learns task after task and forgets nothing (Ostapenko et al., CVPR 2019: DGM).

The supplement's layers, masked and growing. Everything else is per task: labels, biases, BatchNorm. The last layer,
whose units are the image's channels, is one per class, under no mask.
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
from lockgate.memory.gan.nets import LATENT, Crop, GeneratorPlan, Up, initialised, last_activation


class ClassOutputs(nn.ModuleList):
    """The last layer of a generator, one for each class of a task."""

    def __init__(self, classes: int, c_in: int, up: Up) -> None:
        layers = (nn.ConvTranspose2d(c_in, up.channels, up.kernel, stride=up.stride) for _ in range(classes))
        super().__init__(initialised(nn.Sequential(layer))[0] for layer in layers)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Each image of (B, C, H, W) through the layer of its class in ``y`` (B,).

        A class without an image maps none: its layer has a gradient all the same, as on other ranks.
        """
        places = [(y == label).nonzero()[:, 0] for label in range(len(self))]
        out = torch.cat([layer(x[place]) for layer, place in zip(self, places, strict=True)])
        return out[torch.cat(places).argsort()]


def fresh_noise(y: Tensor) -> Tensor:
    """Noise (B, 112) for labels ``y`` (B,)."""
    return torch.randn(len(y), NOISE, device=y.device)


class MaskedGenerator(nn.Module):
    """Noise (B, 112) and labels (B,) of one task to images (B, C, H, W), values in [low, 1]."""

    def __init__(self, plan: GeneratorPlan, layer: type[Growing]) -> None:
        super().__init__()
        self.plan = plan
        channels, *sides = plan.first
        layers = [layer(LATENT, channels, (sides[0], sides[1]), LinearMap())]
        for up in plan.ups[:-1]:
            square = (up.kernel, up.kernel)
            layers.append(layer(layers[-1].width, up.channels, square, TransposedMap(up.stride)))
        self._layers = nn.ModuleList(layers)
        self.outputs = TaskModules()
        self.norms = nn.ModuleList()
        if plan.norm:
            widths = (math.prod(plan.first), *(up.channels for up in plan.ups[:-1]))
            self.norms.extend(TaskNorm(width) for width in widths)
        self.crops = [nn.Identity(), *(Crop(*up.crop) if up.crop else nn.Identity() for up in plan.ups)]
        self.activation = last_activation(plan)
        self.labels = TaskModules()
        self._free = [layer.free for layer in self.layers]
        """What growth keeps free."""
        self._units = sum(layer.width for layer in self.layers)

    @property
    def layers(self) -> list[Growing]:
        """The masked layers in order."""
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
        out: Tensor = self.activation(self.crops[-1](self.outputs[task](x, y)))
        return out

    def _then(self, h: Tensor, index: int, task: int) -> Tensor:
        """What stands between a layer's map and its mask."""
        h = self.crops[index](h)
        if len(self.norms):
            # The linear layer's BatchNorm is one-dimensional: each of its units is a channel.
            flat = h.flatten(1)[:, :, None, None] if index == 0 else h
            h = self.norms[index](flat, task).reshape(h.shape)
        return F.relu(h)

    # -- tasks -------------------------------------------------------------------------------------------------------

    def add_task(self, classes: int) -> None:
        """Masks, biases, BatchNorm, labels and output layers for one more task; those of earlier ones stop learning."""
        for module in (*self._layers, *self.norms):
            cast(Growing | TaskNorm, module).add_task()
        self.labels.append(nn.Embedding(classes, LABEL))
        self.outputs.append(ClassOutputs(classes, self.layers[-1].width, self.plan.ups[-1]))
        for own in (self.labels, self.outputs):
            own.freeze_past()

    def end_task(self) -> None:
        """Freeze what the newest task uses."""
        below = torch.ones(LATENT, dtype=torch.bool, device=self.layers[0].weight.device)
        for layer in self.layers:
            below = layer.freeze(below)

    def learning(self) -> list[nn.Parameter]:
        """What the newest task trains, but for its masks."""
        newest = [self.labels[-1], self.outputs[-1], *(cast(TaskNorm, norm).norms[-1] for norm in self.norms)]
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
            kept[f"layers.{index}.embedding"] = layer.embeddings[task].detach()
        own = {"labels": self.labels[task], "outputs": self.outputs[task]}
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

    @property
    def growth(self) -> float:
        """Units it has for each that it had at first."""
        return sum(layer.width for layer in self.layers) / self._units

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
