"""Layers with hard attention to the task (Serra et al., ICML 2018) and the signature of the torch layer they replace.

    x ----> weight ---> then ---> (x) ---> output          mask of task t: a^t = sigmoid(s e^t), one entry per unit
            mask of the task ----/

While training, s goes up within each epoch and the mask is soft; everywhere else it is binary, 1 where e^t > 0: what
the sigmoid tends to. A unit is used once the mask of an ended task holds it; a weight is frozen once both its ends are.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.layers.gated import apply_gate
from lockgate.layers.init import Init, initialise
from lockgate.layers.parts import Then

LARGEST_EXPONENT = 50.0
"""Bound on |s e| in the compensation of gradients: cosh overflows above 89 (the authors' ``thres_cosh``)."""
LARGEST_EMBEDDING = 6.0
"""Bound on |e| (the authors' ``thres_emb``): beyond it even s = 1 has no slope left to come back by."""


class Masked(nn.Module):
    """A layer with one mask over its output units per task, and weights that freeze one by one."""

    weight: nn.Parameter  # (c_out, c_in, ...)
    bias: nn.Parameter | None  # (c_out,)
    used: Tensor  # (c_out,) bool, a^{<=t} of this layer
    used_inputs: Tensor  # (c_in,) bool, a^{<=t} of the layer below
    _frozen: Tensor  # (c_out, c_in, 1, ...) bool
    _weight: Tensor  # (c_out, c_in, ...)
    _bias: Tensor  # (c_out,)

    def __init__(self, weight: Tensor, bias: Tensor | None, init: Init) -> None:
        super().__init__()
        initialise(weight, bias, init)
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)
        self.embeddings = nn.ParameterList()  # e^t, (c_out,) each
        self.scale = 1.0
        """s; whoever trains the layer sets it before each step."""
        self.register_buffer("used", torch.zeros(weight.shape[0], dtype=torch.bool))
        self.register_buffer("used_inputs", torch.zeros(weight.shape[1], dtype=torch.bool))
        for name in ("_frozen", "_weight", "_bias"):  # derived, so not in the state
            self.register_buffer(name, torch.empty(0), persistent=False)
        self._remember()
        self.register_load_state_dict_post_hook(lambda module, _: module._remember())  # type: ignore[no-untyped-call]

    @property
    def width(self) -> int:
        """How many units there are."""
        return len(self.weight)

    def add_task(self) -> None:
        """An embedding for one more task, from N(0, 1) as the authors' code has it; earlier ones stop learning."""
        self.embeddings.requires_grad_(False)
        self.embeddings.append(nn.Parameter(torch.randn(self.width)))

    def spread(self, x: Tensor, task: int) -> Tensor:
        """All units are always computed."""
        return x

    def mask(self, task: int) -> Tensor:
        """a^t, (c_out,): sigmoid(s e^t) while training, else 1 where e^t > 0."""
        e: Tensor = self.embeddings[task]
        return torch.sigmoid(self.scale * e) if self.training else (e > 0).to(e.dtype)

    def forward(self, x: Tensor, task: int, then: Then) -> tuple[Tensor, Tensor]:
        """The masked output, and the mask, the same for each image, (B, c_out)."""
        mask = self.mask(task).expand(len(x), -1)
        return apply_gate(then(self.linear_map(x)), mask), mask

    def linear_map(self, x: Tensor) -> Tensor:
        """The map being masked."""
        raise NotImplementedError

    # -- what a task leaves behind -----------------------------------------------------------------------------------

    def freeze(self, used: Tensor, used_inputs: Tensor) -> None:
        """Freeze weights between ``used`` units (c_out,) and ``used_inputs`` (c_in,), and the biases of the former."""
        self.used |= used
        self.used_inputs |= used_inputs
        self._remember()

    def _remember(self) -> None:
        """Copy what is frozen, so that ``restore`` can put it back."""
        frozen = self.used[:, None] & self.used_inputs
        self._frozen = frozen.reshape(*frozen.shape, *([1] * (self.weight.dim() - 2)))
        self._weight = self.weight.detach().clone()
        self._bias = torch.empty(0) if self.bias is None else self.bias.detach().clone()

    # -- a step ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def hold_gradients(self) -> None:
        """g_ij <- [1 - min(a^{<=t}_i, a^{<=t}_j)] g_ij; before clipping, or they would eat the norm."""
        if self.weight.grad is not None:
            self.weight.grad.masked_fill_(self._frozen, 0.0)
        if self.bias is not None and self.bias.grad is not None:
            self.bias.grad.masked_fill_(self.used, 0.0)

    @torch.no_grad()
    def compensate(self, largest: float) -> None:
        """Undo what s does to the newest embedding's gradient, so that it flows as if s were 1 all the time:

        q <- s_max [cosh(s e) + 1] / (s [cosh(e) + 1]) q
        """
        e: Tensor = self.embeddings[-1]
        if e.grad is not None:
            exponent = (self.scale * e).clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT)
            e.grad *= largest / self.scale * (exponent.cosh() + 1) / (e.cosh() + 1)

    @torch.no_grad()
    def restore(self) -> None:
        """Put every frozen weight and bias back to the bits it had: momentum and weight decay move them."""
        self.weight.copy_(torch.where(self._frozen, self._weight, self.weight))
        if self.bias is not None:
            self.bias.copy_(torch.where(self.used, self._bias, self.bias))

    @torch.no_grad()
    def bound(self) -> None:
        """Keep the newest embedding where it can still learn."""
        self.embeddings[-1].clamp_(-LARGEST_EMBEDDING, LARGEST_EMBEDDING)

    def extra_repr(self) -> str:
        """Shape and what is in use."""
        return f"weight={tuple(self.weight.shape)}, used={int(self.used.sum())}/{self.width}"


class MaskedConv2d(Masked):
    """``nn.Conv2d`` with a mask per task."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        *,
        bias: bool = True,
        init: Init = "he",
    ) -> None:
        shape = (out_channels, in_channels, kernel_size, kernel_size)
        super().__init__(torch.empty(shape), torch.empty(out_channels) if bias else None, init)
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def linear_map(self, x: Tensor) -> Tensor:
        """Convolve (B, c_in, H, W)."""
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding)


class MaskedLinear(Masked):
    """``nn.Linear`` with a mask per task."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, init: Init = "he") -> None:
        super().__init__(torch.empty(out_features, in_features), torch.empty(out_features) if bias else None, init)

    def linear_map(self, x: Tensor) -> Tensor:
        """Map (B, in_features)."""
        return F.linear(x, self.weight, self.bias)
