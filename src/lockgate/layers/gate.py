"""The gating module G of one layer and one task (paper, Section 3.2 and Figure 1)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.layers.gumbel import hard_gate
from lockgate.layers.init import Linear
from lockgate.training import distributed

HIDDEN = 16
OPEN_BIAS = 1.5
"""Start of the last bias. Gates start open: at 0, half of the filters are off before anything is learnt."""


class GateNorm(nn.BatchNorm1d):
    """BatchNorm1d that also trains on a batch of one, by its running statistics."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (B, features)."""
        if self.training and len(input) == 1:
            return F.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        return super().forward(input)


class ChannelGate(nn.Module):
    """Decides, from a layer's input, which of its output channels to compute.

    Global average pool, Linear(c_in, 16), BatchNorm, ReLU, Linear(16, c_out), then a hard threshold. After its task,
    ``seal`` holds the relevant set and is ANDed into the gate for ever: a gate that was silent on the held-out data can
    fire on other images, and would then use a filter that later tasks have re-trained.

    While its task is learnt, channels can be ``pruned``: their gates are held shut, so that the layer need not compute
    them. What the gate would have done is counted all the same, so that they can come back.
    """

    seal: Tensor
    pruned: Tensor
    fires: Tensor
    images: Tensor

    def __init__(self, c_in: int, c_out: int, hidden: int = HIDDEN, open_bias: float = OPEN_BIAS) -> None:
        super().__init__()
        self.squeeze = Linear(c_in, hidden)
        self.norm = GateNorm(hidden)
        self.excite = Linear(hidden, c_out)
        nn.init.constant_(self.excite.bias, open_bias)
        self.noisy = True
        """Whether training adds noise before the threshold."""
        self.register_buffer("seal", torch.ones(c_out, dtype=torch.bool))
        self.register_buffer("pruned", torch.zeros(c_out, dtype=torch.bool))
        self.register_buffer("fires", torch.zeros(c_out))  # while training, since the last look
        self.register_buffer("images", torch.zeros(()))

    @property
    def width(self) -> int:
        """The number of channels this gate decides about: the layer's width when its task began."""
        return self.excite.out_features

    def logits(self, x: Tensor, read: Tensor | None = None) -> Tensor:
        """Log-odds of each output channel, (B, c_out), from the layer's input (B, c_in[, H, W]).

        ``read`` says which input channels ``x`` holds; None: all.
        """
        # fp32 whatever the precision of the run: near the threshold, reduced precision flips gates.
        with torch.autocast(x.device.type, enabled=False):
            pooled = x.float().mean((2, 3)) if x.dim() == 4 else x.float()  # (B, c_in)
            weight = self.squeeze.weight if read is None else self.squeeze.weight.index_select(1, read)
            out: Tensor = self.excite(F.relu(self.norm(F.linear(pooled, weight, self.squeeze.bias))))
            return out

    def forward(self, x: Tensor, read: Tensor | None = None) -> Tensor:
        """Open gates, (B, c_out), each exactly 0 or 1; noise only while training."""
        gate = hard_gate(self.logits(x, read), noisy=self.training and self.noisy)
        if self.training:
            self.fires += gate.detach().sum(0)
            self.images += len(x)
        return gate * (self.seal & ~self.pruned)

    def prune(self, below: float, for_good: bool = False) -> None:
        """Prune the channels that fired for less than ``below`` of the images since the last look, and count anew.

        ``for_good``: what is pruned already stays so, whatever its gate would have done.
        """
        rate = distributed.from_rank_zero(self.fires / self.images.clamp(min=1))
        held = self.pruned & for_good
        self.pruned.copy_((rate < below) | held)
        can_open = self.seal & ~held
        self.pruned[rate.masked_fill(~can_open, -1.0).argmax()] = False  # nothing to compute would cut the stream
        self.fires.zero_()
        self.images.zero_()

    @torch.no_grad()
    def forget_shut(self, read: Tensor | None) -> None:
        """Zero what makes no difference any more: what sealed channels would be, and inputs that are not ``read``."""
        self.excite.weight[~self.seal] = 0
        self.excite.bias[~self.seal] = 0
        if read is not None:
            unread = torch.ones(self.squeeze.in_features, dtype=torch.bool, device=read.device)
            self.squeeze.weight[:, unread.index_fill(0, read, False)] = 0

    def unprune(self) -> None:
        """Its task has ended: the seal does what is left to do."""
        for buffer in (self.pruned, self.fires, self.images):
            buffer.zero_()
