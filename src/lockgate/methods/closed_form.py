"""A frozen network and a classifier that is solved for instead of trained: what ncm, slda and ranpac share.

end of task t:  one pass over its images -> statistics by class (statistics.py) -> weights, in closed form
                chosen and tempered by its held-out images, which are then counted as well
task given:     the weights of its classes as they were solved for when the task ended: they never change again
not given:      the weights of all classes, solved for anew after each task from statistics that only grow

Nothing is trained, so the network is as good as it was given. One that was never trained gives random features.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.backbones.base import Backbone
from lockgate.backbones.foreign import adapt
from lockgate.config import ModelConfig, option
from lockgate.layers.buffers import take_sizes
from lockgate.layers.init import Init
from lockgate.layers.plain import LayerFactory
from lockgate.layers.pool import pooled
from lockgate.methods.base import Context, Method
from lockgate.methods.protocols import TaskReport
from lockgate.methods.statistics import Statistics
from lockgate.methods.temperature import temperature_of
from lockgate.training import distributed
from lockgate.training.phase import Phase, eval_batch, evaluating
from lockgate.types import Examples, Task

REMEMBERED = 2**28
"""Bytes of features that are kept while ``reading_once``; what is beyond is computed anew."""


@dataclass(frozen=True)
class ClosedFormOptions:
    """Options of every closed-form method."""

    features: Literal["all", "last"] = option(
        "all", "What of the network is read: every layer, each averaged over the image; or the last features alone."
    )


class ClosedForm(Method):
    """Sub-classes say how the weights follow from the statistics, and what becomes of features before."""

    Options: ClassVar[type[Any]] = ClosedFormOptions
    closed_form = True
    wrapped = False
    keeps_products: ClassVar[bool] = True
    """Whether products of features are among the statistics."""
    keeps_held_out: ClassVar[bool] = False
    """Whether what held-out images come to is kept apart, by the method itself, to choose by again."""
    version: ClassVar[int] = 2
    """1: held-out images never counted, scores were not tempered."""
    options: ClosedFormOptions
    weight: Tensor
    bias: Tensor
    temperatures: Tensor

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.requires_grad_(False)
        with torch.no_grad(), evaluating(self):
            inputs = read(self, torch.zeros(1, *self.image_shape, dtype=torch.uint8))
            self.transform = self.make_transform(inputs.shape[1])
            self.width: int = self.transform(inputs).shape[1]
        self.statistics = Statistics(self.width, self.keeps_products)
        self.register_buffer("weight", torch.empty(0, self.width))  # (classes seen, D), for answers without the task
        self.register_buffer("bias", torch.empty(0))
        self.register_buffer("temperatures", torch.empty(0))  # (tasks,), of answers without the task
        self._read: dict[bytes, Tensor] | None = None

    @classmethod
    def layer_factory(cls, init: Init, options: Any) -> LayerFactory:
        """Plain layers; a network of another make stays as it is."""
        return super().layer_factory(init, options)._replace(adapt=_as_given)

    # -- what sub-classes say ----------------------------------------------------------------------------------------

    def make_transform(self, inputs: int) -> nn.Module:
        """What turns what is read of the network, (B, inputs), into what the classifier takes, (B, D)."""
        return nn.Identity()

    def solve(self, task: Task) -> tuple[Tensor, Tensor]:
        """Weights (classes seen, D) and biases (classes seen,) from the statistics, ``task`` included."""
        raise NotImplementedError

    def count(self, examples: Examples, classes: int, again: bool = False) -> None:
        """Add images of a task of ``classes`` to what is kept; ``again``: more of the task that was added last."""
        collect(self, self.statistics, examples, classes, again)

    def compute(self, x: Tensor) -> Tensor:
        """Inputs of the classifier (B, D) of images (B, C, H, W) uint8."""
        return cast(Tensor, self.transform(read(self, x)))

    # -- hooks -------------------------------------------------------------------------------------------------------

    def stage_steps(self, images: Sequence[int], planned: Callable[[int], int]) -> list[int]:
        """None."""
        return [0] * len(images)

    def schedule(self, phase: Phase) -> Phase:
        """Nothing is trained."""
        return replace(phase, epochs=0)

    @torch.no_grad()
    def end_task(self, task: Task) -> None:
        """Count the task's images in, and solve."""
        classes = len(task.classes)
        with evaluating(self):
            self.count(task.train, classes)
            scores = _held_out_scores(self, task, *self.solve(task))
            before = scores.shape[1] - classes
            of_all = temperature_of(scores, task.val.y + before)
            of_task = temperature_of(scores[:, before:], task.val.y)
            if not self.keeps_held_out:  # all that they were to choose is chosen
                self.count(task.val, classes, again=True)
            self.weight, self.bias = (value.to(self.weight) for value in self.solve(task))
        self.temperatures = torch.cat([self.temperatures, self.temperatures.new_tensor([of_all])])
        head = cast(nn.Linear, self.heads[-1])
        head.weight.copy_(self.weight[-classes:] / of_task)
        head.bias.copy_(self.bias[-classes:] / of_task)

    def predict(self, x: Tensor, task: int | None) -> Tensor:
        """Logits of ``task``'s classes, or of all classes seen; 0 for those whose task has not ended."""
        if task is not None:
            return self.logits(x, task)
        missing = sum(e["classes"] for e in self.structure()) - len(self.bias)
        temperature = self.temperatures.log().mean().exp()
        return F.pad(F.linear(self.features(x), self.weight, self.bias) / temperature, (0, missing))

    # -- the network -------------------------------------------------------------------------------------------------

    def features(self, x: Tensor) -> Tensor:
        """Inputs of the classifier (B, D); while ``reading_once``, of images seen within they are known."""
        if self._read is None:
            return self.compute(x)
        key = hashlib.sha256(f"{tuple(x.shape)}".encode() + x.cpu().numpy().tobytes()).digest()
        out = self._read.get(key)
        if out is None:
            out = self.compute(x)
            if (1 + len(self._read)) * out.nbytes <= REMEMBERED:
                self._read[key] = out
        return out

    @contextmanager
    def reading_once(self) -> Iterator[None]:
        """Within, the network is not run again on a batch that it has seen within."""
        before = self._read
        self._read = {} if before is None else before
        try:
            yield
        finally:
            self._read = before

    def logits(self, x: Tensor, task: int) -> Tensor:
        """Scores (B, classes) of one task's classes."""
        scores: Tensor = self.heads[task](self.features(x))
        return scores

    def add_task(self, classes: int) -> None:
        """Weights for one more task, 0 until they are solved for."""
        self.widths.append(self.backbone.widths())
        head = nn.Linear(self.width, classes).requires_grad_(False)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        self.heads.append(head)

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        take_sizes(self, state, prefix, ("weight", "bias", "temperatures"))
        super()._load_from_state_dict(state, prefix, *args)

    # -- what a run may ask ------------------------------------------------------------------------------------------

    @property
    def sealed(self) -> bool:
        """The network is frozen, and so are the weights of a task that has ended."""
        return True

    def promised(self, task: int) -> dict[str, Tensor]:
        """The weights of ``task``, and what was counted of its classes; with the first, the frozen network as well."""
        classes = [entry["classes"] for entry in self.structure()]
        mine = slice(sum(classes[:task]), sum(classes[: task + 1]))
        found = {f"heads.{task}.{key}": value for key, value in self.heads[task].state_dict().items()}
        found |= {"counts": self.statistics.counts[mine], "sums": self.statistics.sums[mine]}
        if task == 0:
            parts = {"backbone": self.backbone, "transform": self.transform}
            found |= {f"{name}.{key}": v for name, part in parts.items() for key, v in part.state_dict().items()}
        return found

    def report(self) -> TaskReport:
        """What is kept; and that features are random, if they are."""
        random = "features are those of a network that was never trained: random, and frozen"
        notes = () if self.backbone.given else (random,)
        kept = sum(part.bytes for part in self.modules() if isinstance(part, Statistics))
        return TaskReport(notes=notes, memory={"images": 0, "bytes": kept, "statistics": kept})


def collect(
    method: ClosedForm,
    statistics: Statistics,
    examples: Examples,
    classes: int,
    again: bool = False,
    columns: slice = slice(None),
) -> None:
    """Add images of ``classes`` new classes, and where images may be mirrored, their mirror images.

    ``again``: of the classes that were added last. ``columns``: those of the features that are meant.
    """
    statistics.add(((z[:, columns], y) for z, y in _parts(method, examples)), classes, again)


def _held_out_scores(method: ClosedForm, task: Task, weight: Tensor, bias: Tensor) -> Tensor:
    """What the held-out images of ``task`` score by weights (classes seen, D) and biases, (N, classes seen)."""
    weight, bias = weight.to(method.weight), bias.to(method.weight)
    return F.linear(held_out_features(method, task), weight, bias).cpu()


def held_out_features(method: ClosedForm, task: Task) -> Tensor:
    """Features (N, D) of the held-out images of ``task``."""
    device = method.input.mean.device
    parts = task.val.parts(eval_batch(method.image_shape))
    return torch.cat([method.weight.new_empty(0, method.width), *(method.features(x.to(device)) for x in parts)])


def _parts(method: ClosedForm, examples: Examples) -> Iterator[tuple[Tensor, Tensor]]:
    """Features and labels of this rank's share, a batch at a time, in full precision."""
    size, device = eval_batch(method.image_shape), method.input.mean.device
    mirrored, world = method.augment.of_task().random_flip, distributed.world_size()
    for index in torch.split(torch.arange(distributed.rank(), len(examples), world), size):
        x, y, _ = examples.batch(index)
        x = x.to(device)
        for seen in (x, x.flip(3)) if mirrored else (x,):
            yield method.features(seen), y


def read(method: ClosedForm, x: Tensor) -> Tensor:
    """What is read of images ``x`` (B, C, H, W) uint8: all layers or the last, averaged over the image."""
    return pooled_layers(method, *method.backbone.read_given(method.input(x)))


def pooled_layers(method: ClosedForm, features: Tensor, maps: dict[str, Tensor]) -> Tensor:
    """Of what a network gave: all layers or the last, averaged over the image."""
    if method.options.features == "last" or not maps:
        return features
    return torch.cat([pooled(h, 1) for h in maps.values()], dim=1)


def _as_given(module: nn.Module, image_shape: tuple[int, int, int], config: ModelConfig, name: str) -> Backbone:
    """A network of another make, with nothing of a task's own."""
    return adapt(module, image_shape, replace(config, private=0.0, private_depth=0.0, gates=False), name)
