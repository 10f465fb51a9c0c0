"""Run folders and models that Lockgate 0.1 wrote: their words in today's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OPTIM = {"shift": "random_translate", "warp": "random_affine"}
_OPTIONS = {**_OPTIM, "settle": "anneal", "park": "prune"}


def upgraded(values: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as its file holds it, in today's words; one that is of today comes back as it is."""
    return {
        **values,
        "optim": _renamed(values.get("optim", {}), _OPTIM),
        "options": _renamed(values.get("options", {}), _OPTIONS),
    }


def _renamed(group: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in group.items()}
