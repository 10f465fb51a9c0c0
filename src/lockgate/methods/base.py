"""The hooks every method speaks. The engine calls them, in this order, and steps the optimiser itself:

begin_task -> preparation
    -> { loss -> backward -> after_backward -> clip -> before_step -> step -> after_step }
-> end_task -> completion -> predict
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.backbones.base import Backbone
from lockgate.layers.init import Init
from lockgate.layers.norm import SharedNorm
from lockgate.layers.plain import LayerFactory, PlainConv2d, PlainLinear
from lockgate.memory.base import Memory
from lockgate.methods.capacity import LayerCapacity
from lockgate.training.phase import Phase, TrainableModule
from lockgate.types import Batch, Examples, Losses, Task


@dataclass(frozen=True)
class NoOptions:
    """A method with nothing to choose."""


@dataclass(frozen=True)
class Context:
    """What a method is made of: everything that its constructor is given."""

    backbone: Backbone
    options: Any
    """An instance of the method's ``Options``."""
    image_shape: tuple[int, int, int]
    """(C, H, W) of every image it will see."""
    standardise: bool = True
    """Whether to standardise images by the first task's mean and standard deviation."""


class Standardise(nn.Module):
    """uint8 images to floats: scaled to [0, 1], and standardised by channel once ``fit`` has been called."""

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, channels, 1, 1))
        self.register_buffer("std", torch.ones(1, channels, 1, 1))

    def fit(self, x: Tensor) -> None:
        """Take mean and deviation of the images ``x`` (N, C, H, W) uint8."""
        flat = x.transpose(0, 1).flatten(1)  # (C, N * H * W)
        for c, values in enumerate(flat):
            std, mean = torch.std_mean(values.double() / 255)
            self.mean[0, c, 0, 0] = mean
            self.std[0, c, 0, 0] = max(float(std), 1e-3)  # a constant channel stays finite

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) uint8 to float."""
        return (x / 255 - self.mean) / self.std


class Method(TrainableModule):
    """A network with a head per task, and the rules by which it learns."""

    Options: ClassVar[type[Any]] = NoOptions
    joint: ClassVar[bool] = False
    """Whether the method is given all tasks at once."""
    class_incremental: ClassVar[bool] = True
    """Whether ``predict`` can do without the task."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.backbone = context.backbone
        self.options = context.options
        self.image_shape = context.image_shape
        self.input = Standardise(context.image_shape[0])
        self.standardise = context.standardise
        self.heads = nn.ModuleList()
        self.memory: Memory | None = None
        """What the method keeps of past tasks."""
        self._weights: Tensor | None = None  # of the current task's classes in the class loss

    @classmethod
    def layer_factory(cls, init: Init, options: Any) -> LayerFactory:
        """The parts to build this method's backbone from."""
        return LayerFactory(
            conv=functools.partial(PlainConv2d, init=init),
            linear=functools.partial(PlainLinear, init=init),
            norm=SharedNorm,
        )

    @classmethod
    def check_backbone(cls, backbone: Backbone) -> list[str]:
        """What keeps this method from working on ``backbone``; empty: nothing. Asked before anything is trained."""
        return []

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def begin_task(self, task: Task) -> Examples:
        """Grow for ``task`` and say what to train on. Cheap and deterministic: a resumed run calls it again."""
        if self.standardise and not self.heads:
            self.input.fit(task.train.x)
        self._weights = torch.tensor(task.weights) if task.weights else None
        for classes in task.heads:
            self.add_task(classes)
        return task.train

    @property
    def preparation_steps(self) -> int:
        """Steps that ``preparation`` takes, each task."""
        return 0 if self.memory is None else self.memory.preparation_steps

    def preparation(self, task: Task) -> Phase | None:
        """What has to be trained before ``task`` itself, if anything: what its memory needs."""
        return None if self.memory is None else self.memory.preparation(task)

    def completion_steps(self, task: int) -> int:
        """Steps that ``completion`` of the task takes."""
        return 0

    def completion(self, task: Task) -> Phase | None:
        """What is trained after ``end_task``, if anything. Short: a run that is killed in it does it anew."""
        return None

    def schedule(self, phase: Phase) -> Phase:
        """How the task itself is trained: as ``phase`` says, unless the method has a schedule of its own."""
        return phase

    def task_steps(self, planned: int) -> int:
        """Steps of that phase, if the experiment's own schedule has ``planned``."""
        return planned

    def loss(self, batch: Batch) -> Losses:
        """The terms of the objective on ``batch``; the engine minimises their sum."""
        return {"class": self.class_loss(batch)}

    def end_task(self, task: Task) -> None:
        """Consolidate what was learnt; the best weights have been reloaded."""

    def predict(self, x: Tensor, task: int | None) -> Tensor:
        """Logits of images (B, C, H, W) uint8: of ``task``'s classes, or without a task of all classes seen so far.

        Without a task, heads that were trained apart simply compete by their logits.
        """
        if task is not None:
            return self.logits(x, task)
        return torch.cat([self.logits(x, t) for t in range(len(self.heads))], dim=1)

    @property
    def inference(self) -> str:
        """Which of its ``answers`` the method gives."""
        return "logits"

    def answers(self, x: Tensor) -> dict[str, Tensor]:
        """What ``predict`` gives without a task, by every kind of inference the method knows."""
        return {"logits": self.predict(x, None)}

    # -- what the hooks are made of ----------------------------------------------------------------------------------

    def logits(self, x: Tensor, task: int) -> Tensor:
        """Logits (B, classes) of one task's head on its stream."""
        out: Tensor = self.heads[task](self.backbone(self.input(x), task).features)
        return out

    def class_loss(self, batch: Batch) -> Tensor:
        """Cross-entropy of each image under the head of the current task."""
        return self.cross_entropy(self.logits(batch.x, len(self.heads) - 1), batch.y)

    def cross_entropy(self, logits: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy of the current task's logits (B, classes), classes weighted as the task asks for."""
        return F.cross_entropy(logits, y, None if self._weights is None else self._weights.to(logits))

    def add_task(self, classes: int) -> None:
        """A head (and whatever the backbone keeps per task) for one more task; earlier heads stop learning."""
        self.backbone.add_task()
        self.heads.requires_grad_(False)
        self.heads.append(nn.Linear(self.backbone.features, classes))

    # -- what the run asks -------------------------------------------------------------------------------------------

    def sizes(self, images: list[int]) -> list[int]:
        """How many images each stage trains on, if its task has so many; methods that replay train on more."""
        return images

    def structure(self) -> list[dict[str, Any]]:
        """What ``rebuild`` needs to make the same modules again, one entry per head; JSON."""
        return [{"classes": head.out_features} for head in self.heads]

    def rebuild(self, structure: list[dict[str, Any]]) -> None:
        """Make a fresh learner's modules those of ``structure``; the values come with ``load_state_dict``."""
        for entry in structure:
            self.rebuild_task(entry)
            if self.memory is not None:
                self.memory.rebuild(self.image_shape, entry["classes"])

    def rebuild_task(self, entry: dict[str, Any]) -> None:
        """The modules of one more task."""
        self.add_task(entry["classes"])

    def kept(self, task: int) -> dict[str, Tensor]:
        """The tensors that are promised never to change after ``task``; empty: the method promises nothing."""
        return {}

    @property
    def sealed(self) -> bool:
        """Whether what is ``kept`` of a task decides its answers: while the one has the same bits, so has the other."""
        return False

    def streams(self, x: Tensor, tasks: Sequence[int] | None = None) -> list[Tensor]:
        """What of each of ``tasks`` (all) feeds answers given without a task, (B, F), and is promised not to change."""
        return []

    def answers_from(self, streams: list[Tensor]) -> dict[str, Tensor]:
        """As ``answers``, from what ``streams`` gave for all tasks."""
        raise NotImplementedError

    def remembered(self) -> dict[str, int] | None:
        """Real images kept of past tasks, and bytes counted as the paper does; None: the method keeps nothing."""
        if self.memory is None:
            return None
        return {"images": self.memory.kept_images, "bytes": self.memory.kept_bytes}

    def fired(self) -> dict[str, list[float]]:
        """By layer, for what share of its held-out images each gate of the newest task fires; {} without gates."""
        return {}

    def capacity(self) -> list[LayerCapacity]:
        """How much of each layer is taken; empty where nothing is ever taken."""
        return []

    def warnings(self) -> list[str]:
        """What a user should know after the task that has just ended."""
        return []
