"""Filters that can be locked for good (paper, Section 3.2: freeze relevant kernels, re-initialise the others).

Zeroed gradients do not freeze a filter: momentum and weight decay still move it. So a locked filter is also put back
after every step, bit for bit, whatever the optimiser did.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lockgate.layers.init import Init, draws, initialise

FREE = -1


class Lockable(nn.Module):
    """A layer whose filters (rows of ``weight``, entries of ``bias``) can be locked by a task.

    ``owner[k]`` is the task that locked filter k, or FREE.
    """

    weight: nn.Parameter  # (c_out, c_in, ...)
    bias: nn.Parameter | None  # (c_out,)
    owner: Tensor  # (c_out,) int64
    _index: Tensor  # (locked,)
    _rows: Tensor  # (locked, c_in, ...)
    _biases: Tensor  # (locked,)

    def __init__(self, weight: Tensor, bias: Tensor | None, init: Init) -> None:
        super().__init__()
        self.init = init
        initialise(weight, bias, init)
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)
        self.register_buffer("owner", torch.full((len(weight),), FREE))
        for name in ("_index", "_rows", "_biases"):  # copies of what is locked; derived, so not in the state
            self.register_buffer(name, torch.empty(0), persistent=False)
        self._remember()
        self.register_load_state_dict_post_hook(lambda module, _: module._remember())  # type: ignore[no-untyped-call]

    @property
    def width(self) -> int:
        """How many filters there are."""
        return len(self.weight)

    @property
    def locked(self) -> Tensor:
        """Which filters are locked, (c_out,) bool."""
        return self.owner != FREE

    def lock(self, relevant: Tensor, task: int) -> None:
        """Lock the ``relevant`` filters (c_out,) that are still free, in the name of ``task``."""
        self.owner[relevant & ~self.locked] = task
        self._remember()

    @torch.no_grad()
    def reinitialise_free(self) -> None:
        """Start all free filters anew, by the layer's own initialiser."""
        weight = torch.empty_like(self.weight, device="cpu")
        bias = None if self.bias is None else torch.empty_like(self.bias, device="cpu")
        initialise(weight, bias, self.init)
        free = ~self.locked
        self.weight[free] = weight.to(self.weight.device)[free]
        if self.bias is not None and bias is not None:
            self.bias[free] = bias.to(self.bias.device)[free]

    @torch.no_grad()
    def hold_gradients(self) -> None:
        """Zero the gradients of locked filters; before clipping, or they would eat the norm."""
        for parameter in (self.weight, self.bias):
            if parameter is not None and parameter.grad is not None:
                parameter.grad.index_fill_(0, self._index, 0.0)

    @torch.no_grad()
    def restore(self) -> None:
        """Put every locked filter back to the bits it had when it was locked."""
        self.weight.index_copy_(0, self._index, self._rows)
        if self.bias is not None:
            self.bias.index_copy_(0, self._index, self._biases)

    def locked_by(self, task: int) -> dict[str, Tensor]:
        """The filters that ``task`` locked."""
        mine = self.owner == task
        rows = {"weight": self.weight.detach()[mine]}
        if self.bias is not None:
            rows["bias"] = self.bias.detach()[mine]
        return rows

    @torch.no_grad()
    def grow_outputs(self, extra: int) -> None:
        """Append ``extra`` free filters."""
        weight = torch.empty(extra, *self.weight.shape[1:])
        bias = None if self.bias is None else torch.empty(extra)
        initialise(weight, bias, self.init)
        if draws():
            self.weight = nn.Parameter(torch.cat([self.weight, weight.to(self.weight.device)]))
        else:  # only the size counts: all of it is about to be loaded
            self.weight = nn.Parameter(self.weight.new_empty(self.width + extra, *self.weight.shape[1:]))
        if self.bias is not None and bias is not None:
            self.bias = nn.Parameter(torch.cat([self.bias, bias.to(self.bias.device)]))
        self.owner = torch.cat([self.owner, torch.full((extra,), FREE, device=self.owner.device)])

    @torch.no_grad()
    def grow_inputs(self, extra: int) -> None:
        """Widen the input: locked filters get zero weights for the new channels, free ones start them anew.

        Past streams never see the new channels at all: they run at the width of their own time.
        """
        shape = (self.width, extra, *self.weight.shape[2:])
        if not draws():  # only the size counts: all of it is about to be loaded
            self.weight = nn.Parameter(self.weight.new_empty(self.width, self.weight.shape[1] + extra, *shape[2:]))
            return
        fresh = torch.empty(self.width, self.weight.shape[1] + extra, *self.weight.shape[2:])
        initialise(fresh, None, self.init)  # at the new fan-in
        added = fresh[:, :extra].to(self.weight.device).reshape(shape)
        added[self.locked] = 0
        self.weight = nn.Parameter(torch.cat([self.weight, added], dim=1))
        self._remember()

    def _remember(self) -> None:
        """Copy what is locked, so that ``restore`` can put it back."""
        self._index = torch.nonzero(self.locked).flatten()
        self._rows = self.weight.detach()[self._index].clone()
        self._biases = torch.empty(0) if self.bias is None else self.bias.detach()[self._index].clone()

    def extra_repr(self) -> str:
        """Shape and lock state."""
        return f"weight={tuple(self.weight.shape)}, locked={int(self.locked.sum())}/{self.width}"
