"""Names for methods, data sets and networks of one's own, usable wherever a name is taken in the same process.

    @register_method("der++")
    class DERpp(SingleHead): ...

Without registering, anything that can be imported is named ``package.module:Attribute``; and an installed package can
offer names as entry points in the groups ``lockgate.methods``, ``lockgate.datasets`` and ``lockgate.backbones``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from lockgate.backbones import BACKBONES
from lockgate.data import DATASETS
from lockgate.methods import METHODS
from lockgate.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])


def register_method(name: str, summary: str = "") -> Callable[[F], F]:
    """Register a subclass of ``Method``; the summary is the first line of its docstring unless given."""
    return _register(METHODS, name, summary)


def register_dataset(name: str, summary: str = "") -> Callable[[F], F]:
    """Register a function ``(data_dir, config) -> Dataset``; the summary is the first line of its docstring."""
    return _register(DATASETS, name, summary)


def register_backbone(name: str, summary: str = "") -> Callable[[F], F]:
    """Register an ``nn.Module`` class, or a function ``(image_shape, layer_factory, config) -> Backbone``."""
    return _register(BACKBONES, name, summary)


def _register(registry: Registry[Any], name: str, summary: str) -> Callable[[F], F]:
    def decorate(found: F) -> F:
        registry.register(name, found, summary)
        return found

    return decorate
