"""Online elastic weight consolidation (Schwarz et al., ICML 2018; EWC is Kirkpatrick et al., PNAS 2017).

train task t:   cross-entropy of its head  +  lambda / 2 * sum_i F_i (theta_i - theta*_i)^2   over shared parameters
end of task t:  F <- gamma F + F_t / mean(F_t),  theta* <- theta

F_t is the diagonal of the Fisher information of the network after task t, exact in the label:

    F_t,i = mean_x sum_y p(y|x) (d log p(y|x) / d theta_i)^2

A task that is learnt to certainty has next to none, hundreds of times less than a hard one; scaled to the same size, as
in Schwarz et al., each task is held on to alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from lockgate.config import option
from lockgate.methods.base import Context, Method
from lockgate.training.phase import evaluating
from lockgate.types import Batch, Losses, Task

LARGEST, IMAGES = 2**26, 16
"""Numbers (256 MB) and images in one pass of per-image gradients; more images at once are no faster on CPU."""
COST, LEAST = 2, 100
"""An image's Fisher information costs about as much as training on ``COST`` images, for each class. Half an epoch is
spent on it at most, but ``LEAST`` images are always looked at."""


@dataclass(frozen=True)
class EWCOnlineOptions:
    """Options of ewc-online."""

    strength: float = option(1.0, "Coefficient lambda of the penalty: tune it.", ge=0)
    normalise: bool = option(
        True, "Scale each task's Fisher information to mean one (Schwarz et al.). False: add it as it is."
    )
    gamma: float = option(
        1.0,
        "What is left of the Fisher information of past tasks when a new one is added. 1, as in the code of van de Ven "
        "and Tolias (2019), forgets nothing.",
        ge=0,
        le=1,
    )
    fisher_images: int = option(
        500,
        "Training images, at most, that a task's Fisher information is averaged over; with labels in expectation, 500 "
        "lose next to nothing against all (van de Ven 2025).",
        ge=1,
    )


class EWCOnline(Method):
    """One plain network, one head per task; moving a shared parameter costs what past tasks would lose by it."""

    Options: ClassVar[type[Any]] = EWCOnlineOptions
    options: EWCOnlineOptions
    fisher: Tensor  # (P,), over all parameters of the backbone
    anchor: Tensor  # (P,), theta*

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.register_buffer("fisher", torch.zeros_like(self.shared()))
        self.register_buffer("anchor", self.shared().detach())

    def shared(self) -> Tensor:
        """All shared parameters in a row, (P,)."""
        return torch.cat([parameter.flatten() for parameter in self.backbone.parameters()])

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def loss(self, batch: Batch) -> Losses:
        """Cross-entropy of the current head, and from the second task on the penalty."""
        losses = super().loss(batch)
        if len(self.heads) > 1:
            losses["penalty"] = self.penalty()
        return losses

    def penalty(self) -> Tensor:
        """lambda / 2 * sum_i F_i (theta_i - theta*_i)^2."""
        return self.options.strength / 2 * (self.fisher * (self.shared() - self.anchor) ** 2).sum()

    def end_task(self, task: Task) -> None:
        """Add the task's Fisher information, and hold on to where the parameters are now."""
        affordable = max(LEAST, len(task.train) // (2 * COST * len(task.classes)))
        chosen = torch.randperm(len(task.train))[: min(self.options.fisher_images, affordable)]
        fisher = self.fisher_of(task.train.x[chosen], task.id)
        if self.options.normalise:
            fisher /= fisher.mean().clamp(min=torch.finfo(fisher.dtype).tiny)
        self.fisher.mul_(self.options.gamma).add_(fisher)
        self.anchor.copy_(self.shared().detach())

    # -- Fisher information ------------------------------------------------------------------------------------------

    @torch.no_grad()
    def fisher_of(self, x: Tensor, task: int) -> Tensor:
        """Diagonal Fisher information (P,) of the shared parameters under ``task``'s head, mean over images ``x``.

        In eval mode: with BatchNorm in train mode an image's gradient would depend on the images beside it.
        """
        parameters = {name: p.detach() for name, p in self.backbone.named_parameters()}
        head = cast(nn.Linear, self.heads[task])

        def log_likelihood(parameters: dict[str, Tensor], image: Tensor, y: int) -> tuple[Tensor, Tensor]:
            stream = functional_call(self.backbone, parameters, (image[None], task))
            value = head(stream.features)[0].log_softmax(0)[y]
            return value, value.exp()

        # One gradient for each image, and p(y|x) beside it.
        per_image = vmap(grad(log_likelihood, has_aux=True), in_dims=(None, 0, None))
        total = torch.zeros_like(self.fisher)
        with evaluating(self):
            for part in torch.split(x, max(1, min(IMAGES, LARGEST // len(total)))):
                images = self.input(part.to(total.device))
                for y in range(head.out_features):
                    gradients, p = per_image(parameters, images, y)
                    total += torch.cat([torch.einsum("b,b...->...", p, g**2).flatten() for g in gradients.values()])
        return total / len(x)
