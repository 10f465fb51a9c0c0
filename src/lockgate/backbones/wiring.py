"""Whether a backbone tells how its layers hang together, which methods that gate or mask them have to know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from lockgate.backbones.base import Backbone, Channels
from lockgate.layers.norm import TaskNorm

MOST = 4
"""Names that a problem lists before it says how many more there are."""


def layer_problems(backbone: Backbone, kind: type[nn.Module]) -> list[str]:
    """What keeps a method that works by layers of ``kind`` from knowing all that ``backbone`` computes with.

    Every parameter must belong to a layer of its factory, listed in ``layers``, or to a norm of one task; and
    ``sources`` must say whose outputs each layer reads.
    """
    layers = backbone.layers
    made = {name: module for name, module in backbone.named_modules() if isinstance(module, kind)}
    if not layers and not made:
        return [
            "it works by the layers that a backbone is built of, and this one names none. Write a Backbone that builds "
            "them with `layer_factory.conv` and `.linear` and lists them in `layers`, `sources` and `channels`, as "
            "lockgate.backbones.simple_cnn does; or use a method that takes any network, e.g. finetune, lwf or icarl."
        ]
    problems = []
    other = [name for name, layer in layers.items() if not isinstance(layer, kind)]
    if other:
        problems.append(f"`layers` holds {_some(other)}, not made by the layer factory that the backbone is given.")
    known = set(map(id, layers.values()))
    hidden = [name for name, layer in made.items() if id(layer) not in known]
    if hidden:
        problems.append(f"{_some(hidden)}: made by the layer factory, but not in `layers`. Add each with its source.")
    outside = list(_outside(backbone, "", (kind, TaskNorm)))
    if outside:
        problems.append(
            f"{_some(outside)} would change past answers, or learn nothing after the first task. Make them with the "
            "layer factory (`conv`, `linear`, `norm`)."
        )
    return problems or _source_problems(backbone)


def channel_problems(backbone: Backbone) -> list[str]:
    """What is wrong with ``channels``: each layer writes one set, and reads the set that its source writes."""
    names = {id(layer): name for name, layer in backbone.layers.items()}
    groups: dict[int, list[Channels]] = {id(layer): [] for layer in backbone.layers.values()}
    problems = []
    for number, group in enumerate(backbone.channels):
        for writer in group.writers:
            groups.setdefault(id(writer), []).append(group)
        if len({writer.width for writer in group.writers}) != 1:
            problems.append(f"`channels[{number}]` must have writers of one width, one at least.")
        if group.norms and len(group.norms) != len(group.writers):
            problems.append(f"`channels[{number}]` must have a norm for each writer, or none.")
    wrong = [names.get(layer, "a layer that is not in `layers`") for layer, mine in groups.items() if len(mine) != 1]
    if wrong:
        problems.append(f"{_some(wrong)} must be a writer of exactly one of `channels`.")
    if problems:
        return problems
    layers = list(backbone.layers.values())
    for layer, source in zip(layers, backbone.sources, strict=True):
        if source is not None and not any(layer is reader for reader in groups[id(layers[source])][0].readers):
            problems.append(
                f"{names[id(layer)]!r} must be a reader of the channels that {names[id(layers[source])]!r} writes."
            )
    return problems


def _source_problems(backbone: Backbone) -> list[str]:
    layers: list[tuple[str, Any]] = list(backbone.layers.items())
    if len(backbone.sources) != len(layers):
        return [f"`sources` must name one source for each of {len(layers)} layers. Got {len(backbone.sources)}."]
    problems = []
    for index, ((name, layer), source) in enumerate(zip(layers, backbone.sources, strict=True)):
        if source is None:
            continue
        if not 0 <= source < index:
            problems.append(f"The source of {name!r} must be the index of a layer before it, or None. Got {source}.")
        elif layer.weight.shape[1] != layers[source][1].width:
            problems.append(
                f"{name!r} reads {layer.weight.shape[1]} channels and its source {layers[source][0]!r} writes "
                f"{layers[source][1].width}: pool to one value a channel instead of flattening."
            )
    return problems


def _outside(module: nn.Module, prefix: str, kinds: tuple[type[nn.Module], ...]) -> Iterator[str]:
    """Names of what learns, or keeps statistics, outside of modules of ``kinds``."""
    yield from (f"{prefix}{name}" for name, _ in module.named_parameters(recurse=False))
    if isinstance(module, _BatchNorm) and not module.affine:
        yield prefix.removesuffix(".")
    for name, child in module.named_children():
        if not isinstance(child, kinds):
            yield from _outside(child, f"{prefix}{name}.", kinds)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(map(repr, names[:MOST])) + more
