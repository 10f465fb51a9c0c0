"""One Registry class: names to objects, imported only when asked for.

Entries are ``"module:attribute"`` strings, so that listing names costs no import of torch.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from lockgate.errors import UnknownNameError

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """Where an object lives and what it is, in one sentence."""

    target: str
    summary: str


def near_matches(name: str, names: Iterator[str] | list[str]) -> str:
    """' Did you mean ...?' for the names close to ``name``, or an empty string."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(repr(c) for c in close)}?" if close else ""


class Registry(Generic[T]):
    """A fixed table of named things of one kind (method, data set, backbone, preset)."""

    def __init__(self, kind: str, entries: Mapping[str, Entry]) -> None:
        self.kind = kind
        self._entries = dict(entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> T:
        self.require(name)
        module, _, attribute = self._entries[name].target.partition(":")
        return cast(T, getattr(importlib.import_module(module), attribute))

    def summary(self, name: str) -> str:
        """The one-sentence description of an entry; imports nothing."""
        self.require(name)
        return self._entries[name].summary

    def require(self, name: str) -> None:
        """Raise ``UnknownNameError`` with the near matches unless ``name`` is registered."""
        problem = self.problem(name)
        if problem:
            raise UnknownNameError(problem)

    def problem(self, name: str) -> str | None:
        """What is wrong with ``name``, or None: lets a config gather several problems before raising."""
        if name in self._entries:
            return None
        known = ", ".join(self._entries)
        return f"Unknown {self.kind} {name!r}.{near_matches(name, list(self._entries))} Known: {known}."
