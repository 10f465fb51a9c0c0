"""One command-line flag for every field of the config, made from its type and its sentence of help."""

from __future__ import annotations

import argparse
import dataclasses
import typing
from typing import Any

from lockgate.config import Experiment
from lockgate.errors import ConfigError
from lockgate.registry import near_matches
from lockgate.settings import type_hints

SYNONYMS = {"backbone": ("--network",)}
"""Other spellings of flags: in Python, `run` calls it `network`."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add a flag per field of ``Experiment``; fields of its groups are dotted: ``--optim.lr``."""
    _add_group(parser, Experiment, "")


def _add_group(parser: Any, cls: type[Any], prefix: str) -> None:
    hints = type_hints(cls)
    for field in dataclasses.fields(cls):
        name = prefix + field.name
        if dataclasses.is_dataclass(hints[field.name]):
            group: Any = hints[field.name]
            title = f"{name}: {(group.__doc__ or '').splitlines()[0]}"
            _add_group(parser.add_argument_group(title), group, f"{name}.")
        elif field.name != "options":
            spellings = dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}", *SYNONYMS.get(name, ())])
            help_text = str(field.metadata.get("help", "")).replace("%", "%%")
            parser.add_argument(*spellings, dest=name, default=argparse.SUPPRESS, metavar="X", help=help_text)
        else:
            parser.add_argument_group(
                "options",
                "Options of the method: --options.NAME X. `lockgate list METHOD` explains them.",
            )


def take_options(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Take ``--options.NAME X`` and ``--options.NAME=X`` out of a command line: argparse does not know their names."""
    rest, options = [], {}
    iterator = iter(words)
    for word in iterator:
        if word.startswith("--options."):
            name, equals, value = word.removeprefix("--options.").partition("=")
            options[name.replace("-", "_")] = value if equals else next(iterator, "")
        else:
            rest.append(word)
    return rest, options


def option_values(given: dict[str, str]) -> dict[str, Any]:
    """The values of ``--options.NAME X``, read as YAML."""
    return _values({f"options.{name}": text for name, text in given.items()}, {}).get("options", {})  # type: ignore[no-any-return]


def refuse(unknown: list[str], command: argparse.ArgumentParser) -> None:
    """Raise for flags that ``command`` does not know, with the near matches among those it does."""
    names = [word.partition("=")[0] for word in unknown if word.startswith("-")] or unknown
    known = [spelling for action in command._actions for spelling in action.option_strings]
    if names:
        raise ConfigError(
            [
                f"Unknown flag '{name}'.{near_matches(name, known)}"
                if name.startswith("-")
                else f"'{name}' is one word too many. `{command.prog} --help` shows what is wanted."
                for name in names
            ]
        )


def collect(parsed: argparse.Namespace) -> dict[str, Any]:
    """The flags that were given, as nested plain values."""
    names = field_names()
    given = {name: value for name, value in vars(parsed).items() if name in names and name != "options"}
    given |= {f"options.{name}": value for name, value in parsed.options.items()}
    return _values(given, names)


def _values(given: dict[str, str], names: dict[str, Any]) -> dict[str, Any]:
    """Texts by dotted name as nested plain values, or all problems at once."""
    import yaml

    nested: dict[str, Any] = {}
    problems = []
    for name, text in given.items():
        *groups, last = name.split(".")
        inner = nested
        for group in groups:
            inner = inner.setdefault(group, {})
        try:
            # A folder called 123 is text, not a number; everything else is read as YAML.
            inner[last] = text if names.get(name) in (str, str | None) else yaml.safe_load(text)
        except yaml.YAMLError:
            problems.append(f"'{name}' must be a YAML value. Got {text!r} instead.")
    if problems:
        raise ConfigError(problems)
    return nested


def field_names(cls: type[Any] = Experiment, prefix: str = "") -> dict[str, Any]:
    """Every leaf field's dotted name with its type."""
    hints = type_hints(cls)
    names: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            names |= field_names(typing.cast(type[Any], hint), f"{prefix}{field.name}.")
        else:
            names[prefix + field.name] = hint
    return names
