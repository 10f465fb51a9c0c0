"""Lockgate: continual learning that provably forgets nothing."""

from lockgate.version import __version__

__all__ = ["__version__"]
