"""``lockgate check-network``: what a network of one's own becomes, and whether its past answers stay, tried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lockgate.backbones import BACKBONES, OWN
from lockgate.backbones.foreign import ForeignBackbone
from lockgate.backbones.foreign_cut import Cuttable, cuttable
from lockgate.errors import ConfigError
from lockgate.evaluation.exactness import audit, logits, promise
from lockgate.layers.slots import SlotMap, SlotNorm
from lockgate.methods.base import Method
from lockgate.runs.build import build_learner, experiment_from
from lockgate.runs.train_task import train_task
from lockgate.types import Examples, Task

IMAGES = 8
"""Of each tiny task, for training; as many are held out, and tested."""
SHOWN = 4
"""Names of parts, at most."""
SIZE = 64
"""Side of images for a network that says nothing of its own."""


@dataclass(frozen=True)
class NetworkCheck:
    """What was found."""

    name: str
    size: int
    maps: int
    private: int
    """Maps of which a task has filters of its own."""
    gates: int
    norms: int
    blocks: int
    """Places that a read-out reads."""
    head: str
    features: int
    parameters: int
    of_a_task: int
    """Parameters that a task adds, its head left out."""
    frozen: int
    """Parameters before the first layer with a part of a task's own."""
    without_own: tuple[tuple[str, int], ...]
    """Parts of other kinds, with how many parameters: frozen, and nothing of them is a task's own."""
    moved: float
    """The largest change of a logit of the first task after the second."""
    learnt: bool
    """Whether the second stream differs from the first."""
    deaf: tuple[str, ...]
    """Parts of a task's own that no gradient reaches."""
    broken: tuple[str, ...]
    """Promises that an audit found broken."""
    cuttable: Cuttable
    """What a compiled stream can leave out where its gates are shut."""

    @property
    def ok(self) -> bool:
        """Whether past answers stay, and tasks can learn."""
        return self.moved == 0 and self.learnt and not self.deaf and not self.broken

    def text(self) -> str:
        """A table for a person."""
        rows = [
            ("images", f"3 x {self.size} x {self.size}"),
            ("maps", f"{self.maps}, of which a task has filters of its own in {self.private}"),
            ("gates", f"{self.gates}" if self.gates else "none (--model.gates true: as in the paper, opening late)"),
            ("norms", f"{self.norms}, each with a copy per task"),
            ("head", f"{self.head} is left out" if self.head else "none found: what it gives are features"),
            ("features", f"{self.features}; a read-out reads {self.blocks} blocks"),
            ("parameters", f"{self.parameters:,}, all locked; {self.frozen:,} before the first part of a task's own"),
            (
                "a task adds",
                f"{self.of_a_task:,} parameters ({self.of_a_task / max(1, self.parameters):.1%}) and a head",
            ),
            *([("frozen", self._others())] if self.without_own else []),
            ("exactness", self._verdict()),
            ("cutting", self._cutting()),
        ]
        return "\n".join([f"network {self.name}", *(f"  {what:12} {found}" for what, found in rows)])

    def _others(self) -> str:
        names = ", ".join(name for name, _ in self.without_own[:SHOWN])
        more = f" and {len(self.without_own) - SHOWN} more" if len(self.without_own) > SHOWN else ""
        count = sum(count for _, count in self.without_own)
        return f"{count:,} parameters of which a task has none of its own: {names}{more}"

    def _cutting(self) -> str:
        found = self.cuttable
        if not found.gated:
            return "nothing: without gates no channel is ever shut, so a compiled stream is the stream as it is"
        if not found.channels:
            reason = f" (kept by {', '.join(found.why)})" if found.why else ""
            return f"the stream as it is: of {found.gated} channels with gates none can leave{reason}"
        kept = f"; some others are kept by {', '.join(found.why)}" if found.why else ""
        return f"{found.channels} of {found.gated} channels with gates leave a compiled stream if shut{kept}"

    def _verdict(self) -> str:
        if self.broken or self.moved:
            return f"FAILED: {self.broken[0] if self.broken else 'logits'} moved, by up to {self.moved:.2g}"
        if self.deaf:
            return f"past answers stay, but no gradient reaches {', '.join(self.deaf[:3])}"
        if not self.learnt:
            return "past answers stay, but a task changes nothing"
        return "past logits are bit-equal after a second task"


def check_network(name: str, size: int = 0, **model: Any) -> NetworkCheck:
    """Make the network, learn two tiny tasks of noise with it, and compare. ``model``: keywords of ``ModelConfig``."""
    if name in OWN:
        raise ConfigError([f"{name!r} is built of gated layers already. Name a network of another make."])
    BACKBONES.require(name)
    learner = _learner(name, size or SIZE, model)
    wanted = learner.backbone.preprocessing
    if not size and wanted is not None and wanted.size != SIZE:
        learner = _learner(name, wanted.size, model)
    backbone = learner.backbone
    if not isinstance(backbone, ForeignBackbone):
        raise ConfigError([f"{name!r} is a Backbone already; there is nothing to change in it."])
    first, second = (_noise(task, learner.image_shape) for task in range(2))
    _train(learner, first)
    promises = [promise(learner, [first])]
    before = logits(learner, first)
    deaf = _train(learner, second)
    moved = float((logits(learner, first) - before).abs().max())
    verdict = audit(learner, [first, second], [made for made in promises if made is not None])
    x = learner.input(first.test.x)
    with torch.no_grad():
        learnt = not torch.equal(backbone(x, 0).features, backbone(x, 1).features)
    return _described(name, backbone, learner.image_shape[1], moved, learnt or not backbone.slots, deaf, verdict.broken)


def _described(
    name: str,
    backbone: ForeignBackbone,
    size: int,
    moved: float,
    learnt: bool,
    deaf: tuple[str, ...],
    broken: tuple[str, ...],
) -> NetworkCheck:
    maps = [slot for slot in backbone.slots if isinstance(slot, SlotMap)]
    given = backbone.constants()
    return NetworkCheck(
        name,
        size,
        len(backbone.found.maps),
        len(maps),
        len(backbone.layers),
        sum(isinstance(slot, SlotNorm) for slot in backbone.slots),
        len(backbone.found.blocks),
        backbone.found.head,
        backbone.features,
        sum(value.numel() for name, value in backbone.named_parameters() if name in given),
        sum(p.numel() for slot in backbone.slots for p in slot.own[-1].parameters()),
        sum(
            p.numel()
            for part in backbone.found.parts_before(slot.name for slot in backbone.slots)
            for p in part.parameters()
        ),
        _without_own(backbone),
        moved,
        learnt,
        deaf,
        broken,
        cuttable(backbone),
    )


def _without_own(backbone: ForeignBackbone) -> tuple[tuple[str, int], ...]:
    """Parts with parameters that are neither maps nor norms, such as recurrent or transposed layers, by name."""
    known = (*backbone.found.maps, *backbone.found.norms, backbone.found.head)
    found: dict[str, int] = {}
    for name, parameter in backbone.module.named_parameters():
        part = name.partition(".parametrizations.")[0] if ".parametrizations." in name else name.rpartition(".")[0]
        if not any(part == other or part.startswith(f"{other}.") for other in known if other):
            kind = type(backbone.module.get_submodule(part)).__name__
            shown = f"{part} ({kind})" if part else name
            found[shown] = found.get(shown, 0) + parameter.numel()
    return tuple(found.items())


def _learner(name: str, size: int, model: dict[str, Any]) -> Method:
    values = {"method": "ccgn", "backbone": name, "model": model, "options": {}}
    return build_learner(experiment_from(values), (3, size, size))


def _train(learner: Method, task: Task) -> tuple[str, ...]:
    """One epoch; the names of trained parts that no gradient reached."""
    before: dict[str, Tensor] = {}
    begin = learner.begin_task

    def begin_and_note(task: Task) -> Examples:
        data = begin(task)
        before.update({n: p.detach().clone() for n, p in learner.named_parameters() if p.requires_grad})
        return data

    learner.begin_task = begin_and_note  # type: ignore[method-assign]
    try:
        optim = {"batch_size": IMAGES, "lr": 0.01, "weight_decay": 0.0, "schedule": "constant", "selection": "last"}
        train_task(learner, task, epochs=2, optim=optim, runtime={"accelerator": "cpu"})
    finally:
        del learner.begin_task
    after = dict(learner.named_parameters())
    return tuple(name for name, value in before.items() if value.numel() and torch.equal(value, after[name]))


def _noise(task: int, shape: tuple[int, int, int]) -> Task:
    rng = torch.Generator().manual_seed(task)
    x = torch.randint(0, 256, (IMAGES, *shape), generator=rng, dtype=torch.uint8)
    some = Examples(x, torch.arange(IMAGES) % 2, torch.full((IMAGES,), task))
    return Task(task, (2 * task, 2 * task + 1), some, some, some)
