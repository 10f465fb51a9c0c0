"""Lockgate: continual learning that provably forgets nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockgate.version import __version__

if TYPE_CHECKING:
    from lockgate.app.classifier import ContinualClassifier

__all__ = ["ContinualClassifier", "__version__"]


def __getattr__(name: str) -> Any:
    """``lockgate.ContinualClassifier``, imported when it is asked for: it brings torch."""
    if name == "ContinualClassifier":
        from lockgate.app.classifier import ContinualClassifier

        return ContinualClassifier
    raise AttributeError(f"module 'lockgate' has no attribute {name!r}")
