"""One Registry class: names to objects, imported only when asked for.

A name is one of Lockgate's own, one that was registered (``lockgate.plugins``), an entry point of an installed package,
or ``package.module:Attribute``. Lockgate's own are ``"module:attribute"`` strings, so that listing names costs no
import of torch.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar, cast

from lockgate.errors import ConfigError, LockgateError, UnknownNameError
from lockgate.importing import load, near_matches

__all__ = ["Entry", "Registry", "near_matches"]

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """Where an object lives and what it is, in one sentence."""

    target: str
    summary: str


@dataclass(frozen=True)
class _Registered:
    found: Any
    summary: str


class Registry(Generic[T]):
    """Named things of one kind (method, data set, backbone, preset)."""

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, Entry],
        group: str = "",
        check: str = "",
        schemes: Mapping[str, str] | None = None,
    ) -> None:
        """``group``: the entry points that belong here; without one, nothing can be plugged in.

        ``check``: "module:function" of what lists the problems of an object that is not Lockgate's own. ``schemes``:
        for names ``scheme:rest`` of other packages, "module:function" of what finds them by (scheme, rest).
        """
        self.kind, self.group = kind, group
        self._entries, self._check, self._schemes = dict(entries), check, dict(schemes or {})
        self._registered: dict[str, _Registered] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._entries, *self._registered, *self._points()]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and not self.problems(name)

    def __getitem__(self, name: str) -> T:
        if name in self._entries:
            module, _, attribute = self._entries[name].target.partition(":")
            return cast(T, getattr(importlib.import_module(module), attribute))
        if name in self._registered:
            return cast(T, self._registered[name].found)
        found = self._plugged_in(name)
        problems = self.check(found)
        if problems:
            raise ConfigError([f"{self.kind} {name!r} {problem}" for problem in problems])
        return cast(T, found)

    def builtin(self, name: str) -> bool:
        """Whether ``name`` is one of Lockgate's own."""
        return name in self._entries

    def require(self, name: str) -> None:
        """Raise ``UnknownNameError`` with the near matches, or what else is wrong, unless there is such a thing."""
        if name not in self._entries:
            self[name]

    def problems(self, name: str) -> list[str]:
        """Everything that is wrong with ``name``: lets a config gather several problems before raising."""
        try:
            self.require(name)
        except ConfigError as error:
            return list(error.problems)
        except LockgateError as error:
            return [str(error)]
        return []

    def check(self, found: object) -> list[str]:
        """What an object misses to be one of this kind; empty: nothing."""
        if not self._check:
            return []
        module, _, function = self._check.partition(":")
        return cast(Callable[[object], list[str]], getattr(importlib.import_module(module), function))(found)

    # -- listing -----------------------------------------------------------------------------------------------------

    def summary(self, name: str) -> str:
        """The one-sentence description of an entry, and where a plug-in comes from. Imports nothing that is listed."""
        if name in self._entries:
            return self._entries[name].summary
        if name in self._registered:
            known = self._registered[name]
            return f"{known.summary} (registered by {known.found.__module__})"
        points = self._points().get(name)
        if points is None:
            return first_line(self[name])
        origin = " and ".join(f"{package_of(point)}: {point.value}" for point in points)
        if len(points) > 1:
            return f"Offered by several packages, {origin}: name one as module:Attribute."
        problem = _broken(points[0])
        return f"Broken: {problem}" if problem else f"From {origin}"

    def shadowed(self) -> list[str]:
        """A sentence for every entry point whose name is taken by Lockgate itself or by something registered."""
        return [
            f"{package_of(point)} offers another {name!r}: name it {point.value}"
            for name, points in self._points().items()
            for point in points
            if name in self._entries or (name in self._registered and not _same_package(point, self._registered[name]))
        ]

    # -- plug-ins ----------------------------------------------------------------------------------------------------

    def register(self, name: str, found: object, summary: str = "") -> None:
        """Give ``found`` a name. A name is given once; the same thing may take its own again, e.g. after a reload."""
        problems = self.check(found)
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
            problems.append(f"must be named by letters, digits, '_', '-' and '.'. Got {name!r} instead.")
        if problems:
            raise ConfigError([f"{self.kind} {name!r} {problem}" for problem in problems])
        new = _Registered(found, summary or first_line(found))
        before = self._registered.get(name)
        holder = "Lockgate itself" if name in self._entries else None
        if before is not None and not _same(before.found, found):
            holder = _path(before.found)
        for point in self._points().get(name, []):
            if not _same_package(point, new):
                holder = package_of(point)
        if holder is not None:
            raise ConfigError([f"The {self.kind} {name!r} is taken by {holder}; register {_path(found)} as another."])
        self._registered[name] = new

    def unregister(self, name: str) -> None:
        """Take back what ``register`` did."""
        self._registered.pop(name, None)

    def _plugged_in(self, name: str) -> Any:
        what = f"{self.kind} {name!r}"
        scheme, _, rest = name.partition(":")
        if scheme in self._schemes and rest:
            return load(self._schemes[scheme], what)(scheme, rest)
        if self.group and ":" in name:
            return load(name, what)
        points = self._points().get(name, [])
        if not points:
            known, plugging = list(self), ""
            if self.group:
                others = "".join(f", one of {scheme} {scheme}:NAME" for scheme in self._schemes)
                plugging = f" One of your own is named package.module:Attribute{others}."
            raise UnknownNameError(f"Unknown {what}.{near_matches(name, known)} Known: {', '.join(known)}.{plugging}")
        if len(points) > 1:
            raise UnknownNameError(f"The {what} is ambiguous. {self.summary(name)}")
        problem = _broken(points[0])
        if problem:
            raise UnknownNameError(f"The {what} cannot be used. {problem}")
        return load(f"{points[0].module}:{points[0].attr}", f"{what} of the package {package_of(points[0])}")

    def _points(self) -> dict[str, list[EntryPoint]]:
        """The entry points of this kind by name. Packages are looked for anew each time: paths may have changed."""
        found: dict[str, list[EntryPoint]] = {}
        for point in importlib.metadata.entry_points(group=self.group) if self.group else ():
            same = found.setdefault(point.name, [])
            if all(point.value != other.value for other in same):  # a package can be on the path twice
                same.append(point)
        return found


def package_of(point: EntryPoint) -> str:
    """The package that an entry point comes from, and its version."""
    return "an unnamed package" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def first_line(found: object) -> str:
    """The first line of an object's docstring, if it has one of its own."""
    own = found.__dict__.get("__doc__") if isinstance(found, type) else getattr(found, "__doc__", None)
    return (own or "").strip().partition("\n")[0] or "No description."


def _broken(point: EntryPoint) -> str | None:
    """What is wrong with an entry point as far as can be seen without importing it."""
    match = point.pattern.match(point.value)
    if match is None or not match["attr"]:
        return f"the entry point of {package_of(point)} must be module:Attribute. Got {point.value!r} instead."
    top = point.module.partition(".")[0]
    try:
        found = importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        found = False
    return (
        None if found else f"{package_of(point)} names the module {top!r}, which is not there. Reinstall the package."
    )


def _same_package(point: EntryPoint, registered: _Registered) -> bool:
    top = str(registered.found.__module__).partition(".")[0]
    return _broken(point) is None and point.module.partition(".")[0] == top


def _path(found: Any) -> str:
    return f"{found.__module__}:{getattr(found, '__qualname__', type(found).__qualname__)}"


def _same(one: Any, other: Any) -> bool:
    """Whether ``other`` is ``one``, or what its module defines in its place after a reload."""
    named = hasattr(other, "__qualname__") and "<" not in other.__qualname__  # <lambda> and <locals> name many things
    return one is other or (named and _path(one) == _path(other))
