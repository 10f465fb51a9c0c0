"""Dataclasses of settings from plain values: every problem is gathered and raised once. Imports no torch."""

from __future__ import annotations

import dataclasses
import functools
import operator
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, TypeVar

from lockgate.errors import ConfigError
from lockgate.registry import near_matches

C = TypeVar("C")


def option(default: Any, help: str, **bounds: float) -> Any:
    """A config field: its default, one sentence of help, and bounds ``ge``, ``gt``, ``le``, ``lt``."""
    metadata = {"help": help, "bounds": bounds}
    return field(default=default, metadata=metadata)


def build(cls: type[C], values: Mapping[str, Any]) -> C:
    """An instance of config class ``cls`` from nested plain values, or ``ConfigError`` listing every problem."""
    problems: list[str] = []
    instance = gather(cls, values, "", problems)
    if problems:
        raise ConfigError(problems)
    return instance


def type_hints(cls: type[Any]) -> dict[str, Any]:
    """Types of the fields of ``cls``. They stand there as text, and to evaluate it takes longer than all else here."""
    return _evaluated(typing.cast(Any, cls))


_evaluated = functools.cache(typing.get_type_hints)


def gather(cls: type[C], values: Mapping[str, Any], prefix: str, problems: list[str]) -> C:
    """Like ``build``, but appends to ``problems``, so that a caller can go on looking; bad fields keep defaults."""
    hints = type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(typing.cast(Any, cls))}
    arguments: dict[str, Any] = {}
    for key, value in values.items():
        if key not in fields:
            problems.append(f"Unknown key '{prefix}{key}'.{near_matches(str(key), list(fields))}")
            continue
        if dataclasses.is_dataclass(hints[key]):
            if isinstance(value, Mapping):
                arguments[key] = gather(typing.cast(type[Any], hints[key]), value, f"{prefix}{key}.", problems)
            else:
                problems.append(f"'{prefix}{key}' must be a group of keys. Got {value!r} instead.")
            continue
        converted, problem = _convert(value, hints[key])
        problem = problem or _out_of_bounds(converted, fields[key].metadata.get("bounds", {}))
        if problem:
            problems.append(f"'{prefix}{key}' must be {problem}. Got {value!r} instead.")
        else:
            arguments[key] = converted
    return cls(**arguments)


def _convert(value: Any, hint: Any) -> tuple[Any, str | None]:
    """``value`` as the type ``hint``, and None or what it should have been."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return value, None if value in args else "one of " + ", ".join(repr(a) for a in args)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None, None
        tried = [_convert(value, a) for a in args if a is not type(None)]
        first = next((found for found in tried if found[1] is None), None)
        return first or (None, " or ".join(str(problem) for _, problem in tried))
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            return None, f"a list of {args[0].__name__}"
        if args[-1] is not Ellipsis and len(value) != len(args):
            return None, f"a list of {len(args)} {args[0].__name__}"
        items = [_convert(item, args[0]) for item in value]
        return tuple(item for item, _ in items), next((f"a list of {args[0].__name__}" for _, p in items if p), None)
    if origin is dict:
        return (dict(value), None) if isinstance(value, Mapping) else (None, "a group of keys")
    if hint is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value), None  # YAML 1.1 reads 5e-4 as a string
        except (ValueError, OverflowError):
            return None, "a number"
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value, None
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    return None, names.get(hint, str(hint))


_BOUNDS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "ge": (operator.ge, "at least"),
    "gt": (operator.gt, "greater than"),
    "le": (operator.le, "at most"),
    "lt": (operator.lt, "less than"),
}


def _out_of_bounds(value: Any, bounds: Mapping[str, float]) -> str | None:
    if value is None or isinstance(value, (str, dict)):
        return None
    items = value if isinstance(value, tuple) else (value,)
    if all(_BOUNDS[name][0](item, bound) for item in items for name, bound in bounds.items()):
        return None
    return " and ".join(f"{_BOUNDS[name][1]} {bound:g}" for name, bound in bounds.items())


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with the values of ``over`` in their place, group by group."""
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        merged[key] = merge(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return merged


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of nested groups by its dotted name."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted name as groups within groups: what ``leaves`` came from."""
    made: dict[str, Any] = {}
    for name, value in values.items():
        *groups, last = name.split(".")
        inner = made
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = value
    return made


def _problems(node: Any, name: str = "", around: tuple[Any, ...] = ()) -> list[str]:
    """What YAML allows and no setting means: a key twice, of which the last would count; a group inside itself."""
    if any(node is outer for outer in around):
        return [f"Got {name.rstrip('.')!r} inside itself; write out what it holds."]
    found, seen = [], set()
    for key, value in node.value if getattr(node, "id", "") == "mapping" else ():
        full = f"{name}{key.value}"
        found += [f"Got {full!r} twice; leave one of them out."] if full in seen else []
        seen.add(full)
        found += _problems(value, f"{full}.", (*around, node))
    return found


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping a YAML file holds."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C where PyYAML was built with it: ten times as fast
    try:
        reader = loader(path.read_text(encoding="utf-8"))
        node = reader.get_single_node()
        values = None if node is None else reader.construct_document(node)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError([f"Cannot read {path}: {' '.join(str(error).split())}"]) from error
    if not isinstance(values, dict):
        got = "an empty file" if values is None else type(values).__name__
        raise ConfigError([f"{path} must hold 'key: value' lines. Got {got} instead."])
    problems = _problems(node)
    if problems:
        raise ConfigError([f"{path} must hold each key once. {problem}" for problem in problems])
    return values
