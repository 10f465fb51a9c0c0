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
from lockgate.layers.plain import Then

LARGEST_EXPONENT = 50.0
"""Bound on |s e| in the compensation of gradients: cosh overflows above 89 (the authors' ``thres_cosh``)."""
LARGEST_EMBEDDING = 6.0
"""Bound on |e| (the authors' ``thres_emb``): beyond it even s = 1 has no slope left to come back by."""


class Attentive(nn.Module):
    """Weights that freeze one by one, and an embedding per task that becomes a mask. Sub-classes say of what."""

    weight: nn.Parameter  # (c_out, c_in, ...)
    _frozen: Tensor  # bool, of a shape that broadcasts to the weight's
    _weight: Tensor  # (c_out, c_in, ...)

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.embeddings = nn.ParameterList()  # e^t
        self.scale = 1.0
        """s; whoever trains the layer sets it before each step."""
        for name in ("_frozen", "_weight"):  # derived, so not in the state
            self.register_buffer(name, torch.empty(0), persistent=False)
        self.register_load_state_dict_post_hook(lambda module, _: module._remember())  # type: ignore[no-untyped-call]

    @property
    def width(self) -> int:
        """How many units there are."""
        return len(self.weight)

    def add_embedding(self, shape: tuple[int, ...]) -> None:
        """An embedding for one more task, from N(0, 1) as the authors' code has it; earlier ones stop learning."""
        self.embeddings.requires_grad_(False)
        self.embeddings.append(nn.Parameter(torch.randn(shape)))

    def mask(self, task: int) -> Tensor:
        """a^t, as e^t: sigmoid(s e^t) for the newest task while training, else 1 where e^t > 0."""
        e: Tensor = self.embeddings[task]
        soft = self.training and task == len(self.embeddings) - 1
        return torch.sigmoid(self.scale * e) if soft else self.held(task).to(e.dtype)

    def held(self, task: int) -> Tensor:
        """What the binary mask of ``task`` holds, bool, as e^t."""
        e: Tensor = self.embeddings[task].detach()
        return e > 0

    def frozen(self) -> Tensor:
        """Which weights are frozen, bool, of a shape that broadcasts to the weight's."""
        raise NotImplementedError

    def _remember(self) -> None:
        """Copy what is frozen, so that ``restore`` can put it back."""
        self._frozen = self.frozen()
        self._weight = self.weight.detach().clone()

    # -- a step ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def hold_gradients(self) -> None:
        """No gradient for what is frozen; before clipping, or it would eat the norm."""
        if self.weight.grad is not None:
            self.weight.grad.masked_fill_(self._frozen, 0.0)

    @torch.no_grad()
    def compensate(self, largest: float) -> None:
        """Undo what s does to the newest embedding's gradient, so that it flows as if s were 1 all the time:

        q <- s_max [cosh(s e) + 1] / (s [cosh(e) + 1]) q
        """
        for e in self.embeddings[-1:]:
            if e.grad is not None:
                exponent = (self.scale * e).clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT)
                e.grad *= largest / self.scale * (exponent.cosh() + 1) / (e.cosh() + 1)

    @torch.no_grad()
    def restore(self) -> None:
        """Put every frozen weight back to the bits it had: momentum and weight decay move it."""
        self.weight.copy_(torch.where(self._frozen, self._weight, self.weight))

    @torch.no_grad()
    def bound(self) -> None:
        """Keep the newest embedding where it can still learn."""
        for e in self.embeddings[-1:]:
            e.clamp_(-LARGEST_EMBEDDING, LARGEST_EMBEDDING)


class Masked(Attentive):
    """A layer with one mask over its output units per task."""

    bias: nn.Parameter | None  # (c_out,)
    used: Tensor  # (c_out,) bool, a^{<=t} of this layer
    used_inputs: Tensor  # (c_in,) bool, a^{<=t} of the layer below
    _bias: Tensor  # (c_out,)

    def __init__(self, weight: Tensor, bias: Tensor | None, init: Init) -> None:
        super().__init__(weight)
        initialise(weight, bias, init)
        self.bias = None if bias is None else nn.Parameter(bias)
        self.register_buffer("used", torch.zeros(weight.shape[0], dtype=torch.bool))
        self.register_buffer("used_inputs", torch.zeros(weight.shape[1], dtype=torch.bool))
        self.register_buffer("_bias", torch.empty(0), persistent=False)
        self._remember()

    def add_task(self) -> None:
        """An embedding for one more task."""
        self.add_embedding((self.width,))

    def spread(self, x: Tensor, task: int) -> Tensor:
        """All units are always computed."""
        return x

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

    def frozen(self) -> Tensor:
        """min(a^{<=t}_i, a^{<=t}_j): weights between two used units, (c_out, c_in, 1, ...)."""
        return both_used(self.used, self.used_inputs, self.weight.dim())

    def _remember(self) -> None:
        super()._remember()
        self._bias = torch.empty(0) if self.bias is None else self.bias.detach().clone()

    # -- a step ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def hold_gradients(self) -> None:
        """g_ij <- [1 - min(a^{<=t}_i, a^{<=t}_j)] g_ij, and of biases g_i <- [1 - a^{<=t}_i] g_i."""
        super().hold_gradients()
        if self.bias is not None and self.bias.grad is not None:
            self.bias.grad.masked_fill_(self.used, 0.0)

    @torch.no_grad()
    def restore(self) -> None:
        """Put every frozen weight and bias back to the bits it had."""
        super().restore()
        if self.bias is not None:
            self.bias.copy_(torch.where(self.used, self._bias, self.bias))

    def extra_repr(self) -> str:
        """Shape and what is in use."""
        return f"weight={tuple(self.weight.shape)}, used={int(self.used.sum())}/{self.width}"


def both_used(used: Tensor, used_inputs: Tensor, dims: int) -> Tensor:
    """Which weights lie between ``used`` units (c_out,) and ``used_inputs`` (c_in,): (c_out, c_in, 1, ...)."""
    pairs = used[:, None] & used_inputs
    return pairs.reshape(*pairs.shape, *([1] * (dims - 2)))


def annealed(step: int, steps: int, largest: float) -> float:
    """s in a step of a phase whose epochs have ``steps``: from 1/s_max in an epoch's first to s_max in its last."""
    done = (step % steps) / (steps - 1) if steps > 1 else 1.0
    return 1 / largest + (largest - 1 / largest) * done


def share_taken(masks: list[Tensor], used: list[Tensor]) -> Tensor:
    """The regulariser without its coefficient, sum a^t (1 - a^{<t}) / sum (1 - a^{<t}): how much of what is still free
    the current masks take. Masks and what past tasks use, layer by layer."""
    taken = torch.stack([(mask * ~past).sum() for mask, past in zip(masks, used, strict=True)]).sum()
    free = torch.stack([(~past).sum() for past in used]).sum()
    return taken / free.clamp(min=1)  # with nothing free, nothing can be taken


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
