"""From a trained learner to small dense networks that give the same answers, and the seconds that the MACs promise.

    compiled = compile_learner(learner)
    compiled.predict(images, task=2)       what Method.predict gives, up to rounding
    compiled.predict(images, task=None)

Images come as uint8. Of the input's standardisation, the mean is subtracted from the image, since zero padding stands
for the mean, and the standard deviation is folded into the first layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from lockgate.backbones.base import Backbone
from lockgate.backbones.foreign import ForeignBackbone
from lockgate.errors import LockgateError
from lockgate.evaluation.accuracy import inference_of
from lockgate.inference.as_it_is import AsItIs, answering
from lockgate.inference.common import make_common
from lockgate.inference.compact import compact, cut_inputs, filled, linear
from lockgate.inference.cut import CompactStream, Cost, make_stream, sealed
from lockgate.inference.finding import make_finder, read_weights
from lockgate.inference.fused import SideBySide, Stacked, fused
from lockgate.inference.reading import Reader, Reading, Weights, fused_weights
from lockgate.layers.plain import PlainConv2d, PlainLinear
from lockgate.methods.base import Method
from lockgate.methods.ccgn.class_incremental import ClassIncremental
from lockgate.methods.ccgn.companion import Companion, asked
from lockgate.methods.ccgn.method import CCGN
from lockgate.methods.ccgn.task_classifier import by_task
from lockgate.methods.network import Standardise
from lockgate.methods.protocols import SeveralAnswers
from lockgate.methods.single_head import SingleHead

CHUNK = 512
"""Images per pass: fewer are too few for what a call costs. What reads the image takes them in smaller parts."""
SMALL = 4
"""Up to this many images, all streams run fused: calls cost more than what is computed."""
LIGHT = 30_000_000
"""In an exported graph, which cannot choose by the number of images, they do so if one image needs fewer
multiplications than this in all: fused, SimpleCNN's streams are faster for one image and as fast for many, ResNet's for
neither."""


class Centre(nn.Module):
    """uint8 images to floats with mean zero; their standard deviation is folded into what reads them."""

    mean: Tensor

    def __init__(self, standardise: Standardise) -> None:
        super().__init__()
        self.register_buffer("mean", (255 * standardise.mean.double()).float())
        self.scale = (1 / (255 * standardise.std.double())).flatten()  # (C,)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) uint8 to float."""
        return x.to(self.mean.dtype, memory_format=torch.channels_last) - self.mean


class OneTask(nn.Module):
    """Images to the logits of one task's classes."""

    def __init__(self, centre: nn.Module, stream: CompactStream, head: nn.Linear) -> None:
        super().__init__()
        self.centre, self.stream, self.head = centre, stream, head

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) uint8 to (B, classes)."""
        out: Tensor = self.head(self.stream(self.centre(x))[0])
        return out


class AllTasks(nn.Module):
    """Images to log-probabilities of all classes seen (paper, Eq. 3), by ``inference``: ``argmax`` or ``joint``."""

    def __init__(
        self,
        learner: ClassIncremental,
        centre: Centre,
        streams: list[CompactStream],
        heads: list[nn.Linear],
        weights: list[Weights | None],
        light: bool,
    ) -> None:
        super().__init__()
        self.centre, self.light = centre, light
        self.streams = nn.ModuleList(streams)
        self.fused = _fused(streams, weights)
        self.common = make_common(streams)
        self.sides = SideBySide([stream.width for stream in streams])
        self.heads = Stacked(heads, fill=float("-inf"))  # a task with fewer classes: the others are impossible
        self.classes = SideBySide([head.out_features for head in heads])
        self.inference = learner.inference
        self.finder = make_finder(learner)
        self.sizes = [head.out_features for head in heads]
        beside_them = learner.companion if len(heads) > 1 else None
        self.companion = None if beside_them is None else _companion(beside_them, centre)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) uint8 to (B, classes seen)."""
        return self.answers(x)[self.inference]

    def answers(self, x: Tensor) -> dict[str, Tensor]:
        """Log-probabilities by both kinds of inference."""
        x = self.centre(x)
        if self.light if torch.compiler.is_compiling() else len(x) <= SMALL:
            pooled, scores, _ = self.fused(x)
        else:
            parts = self._apart(x)
            pooled = torch.cat([features for features, _ in parts], dim=1)
            scores = None if parts[0][1] is None else torch.stack([cast(Tensor, part) for _, part in parts]).sum(0)
        logits = self.heads(self.sides.stack(pooled))  # (tasks, B, classes)
        tasks, told, unsure = self.finder(pooled, scores, self.classes.unstack(logits))
        if self.companion is not None:
            told = asked(self.companion, x, told, unsure)
            tasks = by_task(told, self.sizes)
        within = logits.log_softmax(2)
        each = torch.arange(len(self.streams), device=x.device)[:, None]
        other = tasks.argmax(1) != each  # (tasks, B)
        return {
            "argmax": self.classes.unstack(within.masked_fill(other[:, :, None], float("-inf"))),
            "joint": told.log_softmax(1),
        }

    def _apart(self, x: Tensor) -> list[tuple[Tensor, Tensor | None]]:
        """What each stream gives for centred images."""
        if self.common is None or torch.compiler.is_compiling():
            return [stream(x) for stream in self.streams]
        parts = [[stream(part) for stream in self.streams] for part in self.common.passes(x)]
        return parts[0] if len(parts) == 1 else [_joined(of_stream) for of_stream in zip(*parts, strict=True)]


def _joined(parts: Sequence[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor | None]:
    """What a stream gave for parts of the images, one after another."""
    features, scores = zip(*parts, strict=True)
    return torch.cat(features), None if scores[0] is None else torch.cat(scores)


class Compiled(nn.Module):
    """What a learner answers: ``predict`` and ``answers`` mean what they mean there."""

    def __init__(self, tasks: Sequence[nn.Module], together: nn.Module | None, inference: str) -> None:
        super().__init__()
        self.tasks = nn.ModuleList(tasks)
        self.together = together
        """One network for all tasks; None: each task's own is asked."""
        self.inference = inference

    @torch.inference_mode()
    def predict(self, x: Tensor, task: int | None) -> Tensor:
        """As ``Method.predict``: images (B, C, H, W) uint8; logits, or without a task scores of all classes seen."""
        return self.answers(x)[self.inference] if task is None else _in_chunks(self.tasks[task], x)

    @torch.inference_mode()
    def answers(self, x: Tensor) -> dict[str, Tensor]:
        """As ``SeveralAnswers.answers``: without a task, by every kind of inference."""
        if isinstance(self.together, AllTasks):
            parts = [self.together.answers(part) for part in torch.split(x, CHUNK)]
            return {kind: torch.cat([part[kind] for part in parts]) for kind in parts[0]}
        if isinstance(self.together, AsItIs) and isinstance(self.together.learner, SeveralAnswers):
            return self.together.learner.answers(x)
        if self.together is not None:
            return {self.inference: _in_chunks(self.together, x)}
        return {self.inference: torch.cat([_in_chunks(task, x) for task in self.tasks], dim=1)}


def compile_learner(learner: Method, images: Tensor | None = None) -> Compiled:
    """The compiled form of a trained learner.

    ``images`` (N, C, H, W) uint8, a few hundred like those to come, let it see which filters are seldom needed.
    Learners without gates become their dense network with BatchNorm folded. One on a network of another make is asked
    as it is; with the task given, streams with gates are cut where the network allows it. ``LockgateError`` where there
    is no compiled form.
    """
    learner.eval()
    centre = Centre(learner.input)
    images = None if images is None else images.to(centre.mean.device)
    with torch.no_grad():
        if isinstance(learner.backbone, ForeignBackbone):
            return _as_it_is(learner)
        if isinstance(learner, CCGN):
            return _gated(learner, centre, images).to(centre.mean.device)
        _require_plain(learner)
        return _dense(learner, centre).to(centre.mean.device)


def _as_it_is(learner: Method) -> Compiled:
    together = AsItIs(learner, None) if learner.class_incremental else None
    return Compiled([answering(learner, t) for t in range(len(learner.heads))], together, inference_of(learner))


def _gated(learner: CCGN, centre: Centre, images: Tensor | None) -> Compiled:
    tasks = range(len(learner.heads))
    weights = read_weights(learner)
    cost = Cost(learner, torch.zeros(1, *learner.image_shape, dtype=torch.uint8))
    streams = [make_stream(learner, t, centre.scale, images, cost, weights[t]) for t in tasks]
    heads = [cut_inputs(cast(nn.Linear, learner.heads[t]), sealed(learner, t)[-1]) for t in tasks]
    own = [OneTask(centre, stream, head) for stream, head in zip(streams, heads, strict=True)]
    light = sum(cost(sealed(learner, t)) for t in tasks) < LIGHT
    together = (
        AllTasks(learner, centre, streams, heads, weights, light) if isinstance(learner, ClassIncremental) else None
    )
    return Compiled(own, together, inference_of(learner))


def _fused(streams: list[CompactStream], weights: list[Weights | None]) -> Reader:
    """All streams as one network."""
    read = [part for part in weights if part is not None]
    return Reader(fused([stream.full.backbone for stream in streams]), Reading(fused_weights(read)) if read else None)


def _dense(learner: Method, centre: Centre) -> Compiled:
    stream, heads = _plain(learner.backbone, learner.heads, centre)
    every = OneTask(centre, stream, _as_one(heads))
    return Compiled([OneTask(centre, stream, head) for head in heads], every, inference_of(learner))


def _companion(companion: Companion, centre: Centre) -> nn.Module:
    """Centred images to logits (B, classes seen)."""
    stream, heads = _plain(companion.backbone, companion.heads, centre)
    return OneTask(nn.Identity(), stream, _as_one(heads))


def _plain(backbone: Backbone, heads: nn.ModuleList, centre: Centre) -> tuple[CompactStream, list[nn.Linear]]:
    """A network without gates with BatchNorm folded, and its heads."""
    keep = [torch.arange(width, device=centre.mean.device) for width in backbone.widths()]
    stream = CompactStream(Reader(compact(backbone, 0, keep, centre.scale), None), filled(len(keep[-1])))
    return stream, [cut_inputs(cast(nn.Linear, head), keep[-1]) for head in heads]


def _as_one(heads: list[nn.Linear]) -> nn.Linear:
    """Heads side by side."""
    return linear(torch.cat([head.weight for head in heads]), torch.cat([head.bias for head in heads]))


def _require_plain(learner: Method) -> None:
    """Refuse a method whose answers are not those of linear heads on a plain network."""
    layers = learner.backbone.layers.values()  # none in a network of another make, such as the critic of dgm
    plain = layers and all(isinstance(layer, (PlainConv2d, PlainLinear)) for layer in layers)
    if not plain or type(learner).predict not in (Method.predict, SingleHead.predict):
        raise LockgateError(
            f"{type(learner).__name__} has no compiled form: only gated methods (ccgn, ccgn-episodic, ccgn-generative) "
            "and plain networks with linear heads (finetune, joint, ewc-online, lwf, full-replay, agem, gdumb, er, "
            "er-ace, der++, cgen) have. Ask the learner itself."
        )


def _in_chunks(answer: nn.Module, x: Tensor) -> Tensor:
    if len(x) <= CHUNK:
        out: Tensor = answer(x)
        return out
    return torch.cat([answer(part) for part in torch.split(x, CHUNK)])
