"""What a backbone of one's own misses: of the object named, of what it makes, and of how its layers hang together."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lockgate.backbones.adapter import ModuleBackbone
from lockgate.backbones.base import Backbone, Stream
from lockgate.backbones.weights import HUB, UNTRAINED, load_weights
from lockgate.config import ModelConfig
from lockgate.errors import ConfigError
from lockgate.importing import user_code
from lockgate.layers.plain import LayerFactory

WANTED = (
    "an nn.Module class, or a function (image_shape, layer_factory, config) that returns a Backbone or an nn.Module"
)
GIVEN = ("image_shape", "layer_factory", "config")
"""What a factory is given, as far as it takes it."""


def factory_problems(found: object) -> list[str]:
    """What keeps an object from making backbones."""
    if isinstance(found, nn.Module):
        return [f"is one network, already made. Wanted {WANTED}: every run makes its own, by its seed."]
    if not callable(found):
        return [f"is a {type(found).__name__}. Wanted {WANTED}."]
    if isinstance(found, type) and not issubclass(found, nn.Module):
        return [f"is the class {found.__name__}, which is no nn.Module. Wanted {WANTED}."]
    needed = [name for name in _needed(found) if name not in GIVEN]
    if needed and not _takes_three(found):
        return [f"takes {', '.join(map(repr, needed))}, which nobody gives it. Wanted {WANTED}: give them defaults."]
    return []


def make_backbone(
    factory: Callable[..., Any],
    name: str,
    image_shape: tuple[int, int, int],
    layer_factory: LayerFactory,
    config: ModelConfig,
) -> Backbone:
    """What a factory of one's own makes, checked; a plain ``nn.Module`` is adapted."""
    given = dict(zip(GIVEN, (image_shape, layer_factory, config), strict=True))
    with user_code(f"Making the backbone {name!r}"):
        if _takes_three(factory):
            made = factory(*given.values())
        else:
            made = factory(**{key: given[key] for key in _parameters(factory) if key in given})
    if isinstance(made, nn.Module) and not isinstance(made, Backbone):
        if config.weights not in ("", UNTRAINED, HUB):
            load_weights(made, config.weights, name)
        if layer_factory.adapt is not None:
            adapted: Backbone = layer_factory.adapt(made, image_shape, config, name)
            return adapted
        return ModuleBackbone(made, image_shape, name)
    problems = backbone_problems(made, image_shape, name)
    if problems:
        raise ConfigError([f"backbone {name!r} {problem}" for problem in problems])
    assert isinstance(made, Backbone)
    return made


def backbone_problems(made: object, image_shape: tuple[int, int, int], name: str) -> list[str]:
    """What keeps ``made`` from being a backbone for such images; a copy of it is tried on two blank ones."""
    if not isinstance(made, Backbone):
        return [f"must make a Backbone or an nn.Module. Got {type(made).__name__} instead."]
    try:
        width = made.features
    except (IndexError, AttributeError, NotImplementedError):
        return ["must say how wide its features are: fill `channels`, or override the property `features`."]
    problems = []
    if len(made.sources) != len(made.layers):
        problems.append(f"has {len(made.layers)} `layers` and {len(made.sources)} `sources`: each layer needs one.")
    with torch.random.fork_rng(devices=[]), torch.no_grad(), user_code(f"Trying the backbone {name!r}"):
        tried = copy.deepcopy(made).eval()
        tried.add_task()
        stream = tried(torch.zeros(2, *image_shape), 0)
    if not isinstance(stream, Stream):
        return [*problems, f"must return a lockgate.backbones.base.Stream. Got {type(stream).__name__} instead."]
    features: Any = stream.features
    if not isinstance(features, Tensor) or features.shape != (2, width) or not features.is_floating_point():
        got = f"{features.dtype} {tuple(features.shape)}" if isinstance(features, Tensor) else type(features).__name__
        problems.append(f"must give float features (B, F), F = {width} as it says. Got {got} for 2 images instead.")
    layers: list[Any] = list(made.layers.values())
    gates = [tuple(gate.shape) for gate in stream.gates]
    if gates and gates != [(2, layer.width) for layer in layers]:
        problems.append(
            f"must return the gate of each of its {len(made.layers)} `layers`, in their order. Got {gates} instead."
        )
    return problems


def _parameters(factory: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(factory).parameters)
    except (TypeError, ValueError):  # written in C: nothing is known
        return {}


def _needed(factory: Any) -> list[str]:
    """The parameters without a default."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        name
        for name, parameter in _parameters(factory).items()
        if parameter.default is inspect.Parameter.empty and parameter.kind not in several
    ]


def _takes_three(factory: Any) -> bool:
    """Whether all three are given by their place: to a function that needs three and calls them as it likes."""
    return len(_needed(factory)) == len(GIVEN) and not set(_needed(factory)) & set(GIVEN)
