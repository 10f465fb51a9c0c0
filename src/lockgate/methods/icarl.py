"""iCaRL (Rebuffi et al., CVPR 2017): exemplars, distillation, and classification by the nearest mean of exemplars.

train task t:   on its images and all exemplars, with g_c the sigmoid output of class c and q_c that of the network as
                it was before the task:   - sum_{c new} [y = c] log g_c + [y != c] log (1 - g_c)
                                          - sum_{c old} q_c log g_c + (1 - q_c) log (1 - g_c)
end of task t:  shrink the exemplars of old classes to C / classes each, choose as many of each new class, take means
predict:        argmin_c || phi(x) - mu_c ||,  phi: L2-normalised features,  mu_c: normalised mean of c's exemplars
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.config import option
from lockgate.layers.buffers import take_sizes
from lockgate.memory.herding import ExemplarMemory, herding
from lockgate.methods.base import Context
from lockgate.methods.protocols import TaskReport
from lockgate.methods.single_head import SingleHead
from lockgate.methods.teacher import Teacher
from lockgate.training.phase import eval_batch
from lockgate.types import Batch, Examples, Losses, Task


@dataclass(frozen=True)
class ICaRLOptions:
    """Options of icarl."""

    buffer: int = option(2000, "Exemplars K kept in all, equally many of each class. Paper: 2000.", ge=1)
    selection: Literal["herding", "random"] = option(
        "herding", "Which images become exemplars: those whose mean is nearest to the class's (the paper), or any."
    )


class ICaRL(SingleHead):
    """One sigmoid per class to train the features, nearest mean of exemplars to classify."""

    Options: ClassVar[type[Any]] = ICaRLOptions
    inference = "nearest mean"
    """The paper's; what the network itself would answer is reported beside it."""
    options: ICaRLOptions
    means: Tensor
    memory: ExemplarMemory

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.memory = ExemplarMemory(self.options.buffer)
        self.register_buffer("means", torch.empty(0, self.backbone.features))  # mu_c, one row for each class
        self.teacher: Teacher | None = None

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> Examples:
        """Keep a copy of the network as it is, then grow; to train on: the task and all exemplars."""
        if self.heads:
            self.teacher = Teacher(self.backbone, self.heads)
        return self.memory.all(super().begin_task(task))

    def loss(self, batch: Batch) -> Losses:
        """Binary cross-entropy, summed over classes: of new ones to the label, of old ones to the old outputs.

        Every image is distilled, exemplar or new; an exemplar's label only says that it is of no new class.
        """
        logits = self.all_logits(batch.x)  # (B, classes seen)
        first_new = self.starts[-2]
        is_class = F.one_hot(self.labels(batch), logits.shape[1])
        losses = {"class": binary_cross_entropy(logits[:, first_new:], is_class[:, first_new:])}
        if self.teacher is not None:
            losses["distillation"] = binary_cross_entropy(
                logits[:, :first_new], self.old_outputs(self.teacher, batch.x)
            )
        return losses

    def end_task(self, task: Task) -> None:
        """Algorithms 4 and 5, and the mean of each class's exemplars as the network now sees them."""
        self.eval()
        self.teacher = None
        each = self.options.buffer // self.starts[-1]
        self.memory.reduce(each)
        features = (
            self.unit_features(task.train.parts(eval_batch(self.image_shape)))
            if self.options.selection == "herding"
            else None
        )
        for y in range(len(task.classes)):
            index = torch.nonzero(task.train.y == y).flatten()
            if features is None:
                order = torch.randperm(len(index))[:each]
            else:
                order = herding(features[index.to(features.device)], each).cpu()
            self.memory.add(task.train.batch(index[order]))
        self.means = self.exemplar_means() if each else self.means[:0]

    def predict(self, x: Tensor, task: int | None) -> Tensor:
        """Minus the squared distance to the mean of each class, of ``task`` or of all seen.

        New classes have no mean before their task has ended: until then the network's own outputs answer.
        """
        starts = self.starts
        if len(self.means) < starts[-1]:
            return super().predict(x, task)
        near = self.nearness(self.features(x))
        return near if task is None else near[:, starts[task] : starts[task + 1]]

    def answers(self, x: Tensor) -> dict[str, Tensor]:
        """By the nearest mean of exemplars, and by the outputs that the features were trained with."""
        features = self.features(x)
        outputs = torch.cat([head(features) for head in self.heads], dim=1)  # (B, classes seen)
        known = len(self.means) == self.starts[-1]
        return {"nearest mean": self.nearness(features) if known else outputs, "outputs": outputs}

    # -- what the hooks are made of ----------------------------------------------------------------------------------

    def nearness(self, features: Tensor) -> Tensor:
        """Minus the squared distance of features (B, F), normalised, to the mean of each class, (B, classes)."""
        phi = F.normalize(features)
        return 2 * phi @ self.means.T - phi.square().sum(1, keepdim=True) - self.means.square().sum(1)

    def old_outputs(self, teacher: Teacher, x: Tensor) -> Tensor:
        """q (B, old classes): sigmoid outputs of the network as it was before the task, in evaluation mode."""
        return torch.cat(teacher(self.input(x)), dim=1).sigmoid()

    @torch.no_grad()
    def unit_features(self, parts: Iterable[Tensor]) -> Tensor:
        """phi (N, F): L2-normalised features of any number of images, in parts."""
        device = self.input.mean.device
        return torch.cat([F.normalize(self.features(part.to(device))) for part in parts])

    def exemplar_means(self) -> Tensor:
        """mu (classes, F): the mean of phi over each class's exemplars, normalised again."""
        of_class = F.one_hot(self.labels(self.memory.examples), self.starts[-1])  # (exemplars, classes)
        phi = self.unit_features(torch.split(self.memory.x, eval_batch(self.image_shape)))
        return F.normalize(of_class.to(phi.dtype).T @ phi)  # a sum and a mean have the same direction

    # -- what the run asks -------------------------------------------------------------------------------------------

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        # As in the memory: there are as many means as classes had been seen.
        take_sizes(self, state, prefix, ("means",))
        super()._load_from_state_dict(state, prefix, *args)

    def stage_steps(self, images: Sequence[int], planned: Callable[[int], int]) -> list[int]:
        """On each task's images and a full buffer; what rounding to whole exemplars leaves out is not known here."""
        before = accumulate(images[:-1], initial=0)
        both = [own + min(self.options.buffer, past) for own, past in zip(images, before, strict=True)]
        return super().stage_steps(both, planned)

    def report(self) -> TaskReport:
        """Whether there is room for an exemplar of each class."""
        buffer, classes = self.options.buffer, self.starts[-1]
        if buffer >= classes:
            return TaskReport()
        warning = (
            f"a buffer of {buffer} has no room for one exemplar of each of {classes} classes: none are kept, and the "
            f"network's own outputs answer; use options.buffer {classes} or more"
        )
        return TaskReport(warnings=[warning])


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The paper's loss: the sum over classes, here the mean over images. (B, classes) both."""
    loss = F.binary_cross_entropy_with_logits(logits.float(), targets.float(), reduction="sum")
    return loss / len(logits)
