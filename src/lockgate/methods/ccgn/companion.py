"""A plain network beside the streams: the one part of the method that may forget.

A stream is sparse, was trained on the classes of its own task, and never changes again. A plain network that meets all
tasks one after another knows more, for as long as it does: each new stream begins as it stands then (``start.py``).

What tells classes of different tasks apart can be learnt only when the later one comes, and is learnt best by filters
that may still move. So where there is a memory, the companion is rehearsed, by the loss of ER-ACE (Caccia et al., ICLR
2022), and its answer without the task is a factor beside that of the streams: it errs on other images than they do. It
is asked about the images that the read-out is not sure of (``readout.py``).

each step   L(B, classes of the task) + L(M, all classes seen)
            B a batch of the task, M a rehearsal batch of all tasks, L(., C) cross-entropy with the softmax over C

Where M is generated, all of it is, images of the task that is being learnt too, as for the task classifier: real and
generated images never compete, so nothing is to be gained by telling them apart.

With the task given it has no say, so nothing that is promised depends on it.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.backbones.base import Backbone
from lockgate.layers.cost import per_pair
from lockgate.layers.init import Linear
from lockgate.methods.base import Context, Method
from lockgate.types import Batch, Losses


class Companion(nn.Module):
    """One backbone for all tasks, and a softmax over all classes seen."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone
        self.heads = nn.ModuleList()

    def add_task(self, classes: int, rehearsed: bool) -> None:
        """Outputs for one more task. All of it learns on; but outputs of past tasks only where it is ``rehearsed``."""
        self.backbone.add_task()
        self.heads.requires_grad_(rehearsed)
        self.heads.append(Linear(self.backbone.features, classes))
        self.backbone.requires_grad_(True)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, classes seen) of standardised images (B, C, H, W)."""
        features = self.backbone(x, 0).features
        return torch.cat([head(features) for head in self.heads], dim=1)

    def newest(self, x: Tensor) -> Tensor:
        """Logits (B, classes of the newest task)."""
        logits: Tensor = self.heads[-1](self.backbone(x, 0).features)
        return logits

    def logits(self, new: Tensor, rehearsed: Tensor) -> tuple[Tensor, Tensor]:
        """Of new images among the classes of their own task, and of rehearsed ones among all; one pass for both."""
        both = self(torch.cat([new, rehearsed]))
        newest = both.shape[1] - self.heads[-1].out_features
        return both[: len(new), newest:], both[len(new) :]

    @torch.no_grad()
    def macs(self, image_shape: tuple[int, int, int]) -> tuple[int, int]:
        """Multiply-accumulates of an image; and as the paper counts those of SimpleCNN, without input channels."""
        true, paper = 0, 0
        calls: list[tuple[nn.Module, Tensor]] = []
        layers = self.backbone.layers.values()
        handles = [layer.register_forward_hook(lambda m, x, _: calls.append((m, x[0]))) for layer in layers]
        try:
            device = next(self.parameters()).device
            self.backbone(torch.zeros(1, *image_shape, device=device), 0)
        finally:
            for handle in handles:
                handle.remove()
        for layer, x in calls:
            outputs = per_pair(layer, x) * int(layer.width)  # type: ignore[arg-type]
            true, paper = true + outputs * x.shape[1], paper + outputs
        return true, paper


class Accompanied(Method):
    """A method with a companion, where its option ``companion`` asks for one and its network can be made plain.

    What the companion learns has no say in how streams learn, but for where they begin: it has randomness and clipping
    of its own.
    """

    rehearsed: ClassVar[bool] = False
    """Whether the companion is rehearsed, from a memory: then it answers without the task."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.companion: Companion | None = None
        if self.options.companion and context.plain_backbone is not None:
            self.companion = Companion(context.plain_backbone(self.options.companion))

    def add_task(self, classes: int) -> None:
        """The companion grows too."""
        super().add_task(classes)
        if self.companion is not None:
            with torch.random.fork_rng(devices=[]):
                self.companion.add_task(classes, self.rehearsed)

    def accompany(self, batch: Batch) -> Losses:
        """What the companion learns in a step; held-out images judge the streams alone."""
        if self.companion is None or not self.training:
            return {}
        with torch.random.fork_rng(devices=[]):
            return {"companion": self.companion_loss(self.companion, batch)}

    def companion_loss(self, companion: Companion, batch: Batch) -> Tensor:
        """Of the task's own images among its classes."""
        return self.cross_entropy(companion.newest(self.input(batch.x)), batch.y)

    def clipped_apart(self) -> list[nn.Parameter]:
        """The companion's gradient."""
        return [] if self.companion is None else list(self.companion.parameters())


def beside(told: Tensor, logits: Tensor) -> Tensor:
    """log p(y|x) of all classes seen, (B, classes), from what streams have ``told`` and a companion's ``logits``."""
    return (told + F.log_softmax(logits, 1)).log_softmax(1)


def asked(companion: nn.Module, x: Tensor, told: Tensor, unsure: Tensor) -> Tensor:
    """log p(y|x), (B, classes): what streams have ``told``, and the ``companion`` beside it where they are ``unsure``.

    ``x`` are images (B, C, H, W) as it takes them. It computes nothing about the others.
    """
    if torch.compiler.is_compiling():
        either: Tensor = torch.cond(
            unsure.any(),
            lambda x, told, unsure: _asked(companion, x, told, unsure.nonzero().flatten()),
            lambda x, told, unsure: told.clone(),
            (x, told, unsure),
        )
        return either
    rows = unsure.nonzero().flatten()
    return _asked(companion, x, told, rows) if len(rows) else told


def _asked(companion: nn.Module, x: Tensor, told: Tensor, rows: Tensor) -> Tensor:
    """``told``, and the companion beside it in these ``rows``."""
    both = beside(told.index_select(0, rows), companion(x.index_select(0, rows)))
    return told.index_copy(0, rows, both.to(told.dtype))


def among_all(logits: Tensor, y: Tensor, task: Tensor, sizes: list[int]) -> Tensor:
    """Mean of -log p(y|x), the softmax over all classes seen, for ``logits`` (B, classes) of images of ``task`` (B,).

    Of an image that has no name (``y`` -1), -log p(task|x): the sum over the classes of its task.
    """
    of_task = torch.repeat_interleave(torch.tensor(sizes, device=y.device))  # (classes,)
    within = torch.cat([torch.arange(size, device=y.device) for size in sizes])
    right = (of_task == task[:, None]) & ((within == y[:, None]) | (y < 0)[:, None])  # (B, classes)
    return -F.log_softmax(logits, 1).masked_fill(~right, float("-inf")).logsumexp(1).mean()
