"""Masked layers that grow, for a generator that learns task after task (Ostapenko et al., CVPR 2019: DGM).

    weight (c_out, c_in, H, W)    one for all tasks; what the mask of an ended task holds is frozen
    mask                          per task, over units (DGMa) or over weights (DGMw)
    bias                          per task, so there is nothing in it to forget

A task runs at the width of its own time for ever: later units are not multiplied by zero, they are not there. So the
same kernels see the same numbers, and past outputs stay bit-equal.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.layers.hat import Attentive, both_used
from lockgate.layers.init import he_deviation
from lockgate.layers.maps import Map
from lockgate.layers.plain import Then


class Growing(Attentive):
    """A layer with a mask and a bias per task, and room for more units. Sub-classes say what is masked."""

    used: Tensor  # bool, what masks of ended tasks hold

    def __init__(self, c_in: int, c_out: int, sides: tuple[int, int], map_: Map, last: bool = False) -> None:
        super().__init__(torch.empty(c_out, c_in, *sides))
        self.map, self.last = map_, last
        self.biases = nn.ParameterList()
        self._initialise(self.weight.data)
        self.register_buffer("used", torch.zeros(self._mask_shape(), dtype=torch.bool))

    def _initialise(self, weight: Tensor) -> None:
        nn.init.normal_(weight, std=he_deviation(self.map.fan(weight.shape), self.last))

    def _mask_shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    def add_task(self) -> None:
        """An embedding and a bias for one more task; those of earlier tasks stop learning."""
        self.add_embedding(self._mask_shape())
        self.biases.requires_grad_(False)
        self.biases.append(nn.Parameter(torch.zeros(self.map.bias_shape(self.weight.shape))))

    def weight_of(self, task: int, c_in: int) -> Tensor:
        """The weight at the width of the time of ``task``, which reads ``c_in`` channels."""
        return self.weight[: len(self.biases[task]), :c_in]

    def forward(self, x: Tensor, task: int, then: Then) -> Tensor:
        """Map ``x``, apply ``then``, all under the mask of ``task``."""
        raise NotImplementedError

    # -- what a task leaves behind -----------------------------------------------------------------------------------

    def freeze(self, below: Tensor) -> Tensor:
        """Freeze what the newest mask holds, ``below`` being the units (c_in,) it uses of the layer below.

        Returns the units (c_out,) it uses of this layer.
        """
        raise NotImplementedError

    def locked(self, task: int, below: Tensor) -> tuple[Tensor, Tensor]:
        """The weights that the mask of ``task`` holds, and the units (c_out,) it uses."""
        raise NotImplementedError

    # -- growth ------------------------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """How much no task uses: units or weights."""
        return int((~self.used).sum())

    def width_with_free(self, wanted: int, c_in: int) -> int:
        """The number of units at which ``wanted`` are free, once the layer reads ``c_in`` channels."""
        raise NotImplementedError

    @torch.no_grad()
    def grow(self, c_out: int, c_in: int) -> None:
        """Widen to ``c_out`` units that read ``c_in`` channels; the weights there were stay where they are."""
        old = self.weight
        if (c_out, c_in) == tuple(old.shape[:2]):
            return
        weight = torch.empty(c_out, c_in, *old.shape[2:])
        self._initialise(weight)
        weight = weight.to(old.device)
        weight[: old.shape[0], : old.shape[1]] = old
        self.weight = nn.Parameter(weight)
        self._grow_used()
        self._remember()

    def _grow_used(self) -> None:
        used = torch.zeros(self._mask_shape(), dtype=torch.bool, device=self.used.device)
        used[tuple(slice(n) for n in self.used.shape)] = self.used
        self.used = used

    def extra_repr(self) -> str:
        """Shape and what is in use."""
        return f"weight={tuple(self.weight.shape)}, used={int(self.used.sum())}/{self.used.numel()}"


class UnitMasked(Growing):
    """DGMa: a mask over units, as in HAT. A weight is frozen once both its ends are used.

    The units of the last layer are the image's channels: always in use, under no mask.
    """

    used_inputs: Tensor  # (c_in,) bool

    def __init__(self, c_in: int, c_out: int, sides: tuple[int, int], map_: Map, last: bool = False) -> None:
        super().__init__(c_in, c_out, sides, map_, last)
        self.register_buffer("used_inputs", torch.zeros(c_in, dtype=torch.bool))
        self._remember()

    def _mask_shape(self) -> tuple[int, ...]:
        return (self.width,)

    def add_embedding(self, shape: tuple[int, ...]) -> None:
        """The last layer has none."""
        if not self.last:
            super().add_embedding(shape)

    def forward(self, x: Tensor, task: int, then: Then) -> Tensor:
        """The output, unit by unit times the mask."""
        out = then(self.map(x, self.weight_of(task, x.shape[1]), self.biases[task]))
        return out if self.last else out * self.mask(task)[:, None, None]

    def units(self, task: int) -> Tensor:
        """The units (c_out,) bool that ``task`` uses."""
        if self.last:
            return torch.ones_like(self.used)
        embedding: Tensor = self.embeddings[task].detach()
        return embedding > 0

    def freeze(self, below: Tensor) -> Tensor:
        """Units of the mask, and those below, are used from now on."""
        units = self.units(-1)
        self.used |= units
        self.used_inputs |= below
        self._remember()
        return units

    def frozen(self) -> Tensor:
        """Weights between two used units."""
        return both_used(self.used, self.used_inputs, self.weight.dim())

    def locked(self, task: int, below: Tensor) -> tuple[Tensor, Tensor]:
        """Weights between units of the task's masks."""
        units = self.units(task)
        return self.weight_of(task, len(below)).detach()[units][:, below], units

    def width_with_free(self, wanted: int, c_in: int) -> int:
        """One more unit for each that was taken."""
        return self.width if self.last else self.width + max(0, wanted - self.free)

    def _grow_used(self) -> None:
        super()._grow_used()
        extra = self.weight.shape[1] - len(self.used_inputs)
        self.used_inputs = F.pad(self.used_inputs, (0, extra))


class WeightMasked(Growing):
    """DGMw: a mask over weights. A weight is frozen once a task's mask holds it."""

    def __init__(self, c_in: int, c_out: int, sides: tuple[int, int], map_: Map, last: bool = False) -> None:
        super().__init__(c_in, c_out, sides, map_, last)
        self._remember()

    def _mask_shape(self) -> tuple[int, ...]:
        return tuple(self.weight.shape)

    def forward(self, x: Tensor, task: int, then: Then) -> Tensor:
        """The map of weights times mask."""
        return then(self.map(x, self.weight_of(task, x.shape[1]) * self.mask(task), self.biases[task]))

    def freeze(self, below: Tensor) -> Tensor:
        """Weights of the mask are used from now on."""
        self.used |= self.embeddings[-1].detach() > 0
        self._remember()
        return torch.ones(self.width, dtype=torch.bool, device=self.used.device)

    def frozen(self) -> Tensor:
        """Used weights."""
        return self.used

    def locked(self, task: int, below: Tensor) -> tuple[Tensor, Tensor]:
        """Weights of the task's mask."""
        weight = self.weight_of(task, len(below)).detach()
        return weight[self.embeddings[task] > 0], torch.ones(len(weight), dtype=torch.bool, device=weight.device)

    def width_with_free(self, wanted: int, c_in: int) -> int:
        """As many new units as bring the weights that are missing; new inputs have brought some already."""
        if self.last:
            return self.width
        positions = math.prod(self.weight.shape[2:])
        free = self.free + self.width * (c_in - self.weight.shape[1]) * positions
        return self.width + math.ceil(max(0, wanted - free) / (c_in * positions))
