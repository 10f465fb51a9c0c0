"""Masked layers that grow, for a generator that learns task after task (Ostapenko et al., CVPR 2019: DGM).

    weight (c_out, c_in, H, W)    one for all tasks; what the mask of an ended task holds is frozen
    mask                          per task, over units (DGMa) or over weights (DGMw); none is taken or left at first
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

    def __init__(self, c_in: int, c_out: int, sides: tuple[int, int], map_: Map) -> None:
        super().__init__(torch.empty(c_out, c_in, *sides))
        self.map = map_
        self.biases = nn.ParameterList()
        self._initialise(self.weight.data)
        self.register_buffer("used", torch.zeros(self._mask_shape(), dtype=torch.bool))

    def _initialise(self, weight: Tensor) -> None:
        nn.init.normal_(weight, std=he_deviation(self.map.fan(weight.shape)))

    def _mask_shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    def add_task(self) -> None:
        """An embedding and a bias for one more task; those of earlier tasks stop learning.

        Embeddings start at 0, as in the authors' code: every mask is undecided, and the first steps decide. From
        N(0, 1) most are further from 0 than a short schedule can move them.
        """
        self.add_embedding(self._mask_shape())
        nn.init.zeros_(self.embeddings[-1])
        self.biases.requires_grad_(False)
        self.biases.append(nn.Parameter(torch.zeros(self.map.bias_shape(self.weight.shape))))

    def held(self, task: int) -> Tensor:
        """What the binary mask of ``task`` holds, bool; an embedding that has not moved does, as the authors round."""
        e: Tensor = self.embeddings[task].detach()
        return e >= 0

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
    """DGMa: a mask over units, as in HAT. A weight is frozen once both its ends are used."""

    used_inputs: Tensor  # (c_in,) bool

    def __init__(self, c_in: int, c_out: int, sides: tuple[int, int], map_: Map) -> None:
        super().__init__(c_in, c_out, sides, map_)
        self.register_buffer("used_inputs", torch.zeros(c_in, dtype=torch.bool))
        self._remember()

    def _mask_shape(self) -> tuple[int, ...]:
        return (self.width,)

    def forward(self, x: Tensor, task: int, then: Then) -> Tensor:
        """The output, unit by unit times the mask."""
        out = then(self.map(x, self.weight_of(task, x.shape[1]), self.biases[task]))
        return out * self.mask(task)[:, None, None]

    def freeze(self, below: Tensor) -> Tensor:
        """Units of the mask, and those below, are used from now on."""
        units = self.held(-1)
        self.used |= units
        self.used_inputs |= below
        self._remember()
        return units

    def frozen(self) -> Tensor:
        """Weights between two used units."""
        return both_used(self.used, self.used_inputs, self.weight.dim())

    def locked(self, task: int, below: Tensor) -> tuple[Tensor, Tensor]:
        """Weights between units of the task's masks."""
        units = self.held(task)
        return self.weight_of(task, len(below)).detach()[units][:, below], units

    def width_with_free(self, wanted: int, c_in: int) -> int:
        """One more unit for each that was taken."""
        return self.width + max(0, wanted - self.free)

    def _grow_used(self) -> None:
        super()._grow_used()
        extra = self.weight.shape[1] - len(self.used_inputs)
        self.used_inputs = F.pad(self.used_inputs, (0, extra))


class WeightMasked(Growing):
    """DGMw: a mask over weights. A weight is frozen once a task's mask holds it."""

    def __init__(self, c_in: int, c_out: int, sides: tuple[int, int], map_: Map) -> None:
        super().__init__(c_in, c_out, sides, map_)
        self._remember()

    def _mask_shape(self) -> tuple[int, ...]:
        return tuple(self.weight.shape)

    def forward(self, x: Tensor, task: int, then: Then) -> Tensor:
        """The map of weights times mask."""
        return then(self.map(x, self.weight_of(task, x.shape[1]) * self.mask(task), self.biases[task]))

    def freeze(self, below: Tensor) -> Tensor:
        """Weights of the mask are used from now on."""
        self.used |= self.held(-1)
        self._remember()
        return torch.ones(self.width, dtype=torch.bool, device=self.used.device)

    def frozen(self) -> Tensor:
        """Used weights."""
        return self.used

    def locked(self, task: int, below: Tensor) -> tuple[Tensor, Tensor]:
        """Weights of the task's mask."""
        weight = self.weight_of(task, len(below)).detach()
        return weight[self.held(task)], torch.ones(len(weight), dtype=torch.bool, device=weight.device)

    def width_with_free(self, wanted: int, c_in: int) -> int:
        """As many new units as bring the weights that are missing; new inputs have brought some already."""
        positions = math.prod(self.weight.shape[2:])
        free = self.free + self.width * (c_in - self.weight.shape[1]) * positions
        return self.width + math.ceil(max(0, wanted - free) / (c_in * positions))
