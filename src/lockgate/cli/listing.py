"""The command `lockgate list`: what there is to choose from, and the options of a method."""

from __future__ import annotations

import argparse
import dataclasses
import json
import textwrap
from collections.abc import Iterator
from typing import Any

from lockgate.cli.common import add_command, show

_KINDS = ("methods", "datasets", "backbones", "presets", "tables")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    examples = ["lockgate list", "lockgate list methods --json", "lockgate list ccgn-episodic"]
    listing = add_command(commands, "list", _list, "show what there is to choose from", examples)
    listing.add_argument("what", nargs="?", metavar="KIND|METHOD", help=f"{', '.join(_KINDS)}; or a method's options")


def _list(parsed: argparse.Namespace) -> int:
    if parsed.what is not None and parsed.what not in _KINDS:
        return _list_options(parsed)
    kinds = [parsed.what] if parsed.what else _KINDS
    if parsed.json:
        found = {kind: {name: _registry(kind).summary(name) for name in _registry(kind)} for kind in kinds}
        show(parsed, found, "")
        return 0
    for kind in kinds:
        registry = _registry(kind)
        print(f"{kind}:")
        for name in registry:
            print(f"  {name:16} {registry.summary(name)}")
            for line in _files(name) if kind == "presets" else ():
                print(f"  {'':16} {line}")
        for note in registry.shadowed():
            print(f"  ({note})")
    return 0


def _files(preset: str) -> list[str]:
    """What a preset has files for, and what was chosen for it by which selection."""
    from lockgate.presets import files
    from lockgate.presets.chosen import sources

    return [f"files: {', '.join(files(preset))}", *(sources() if preset == "short" else ())]


def _list_options(parsed: argparse.Namespace) -> int:
    """What can be set of a method with --options.NAME, its default and what it means."""
    found = dict(_options(_registry("methods")[parsed.what].Options, ""))
    lines = [
        f"--options.{name} {json.dumps(field['default'])}\n{_filled(field['help'])}" for name, field in found.items()
    ]
    show(parsed, found, "\n".join(lines) or f"{parsed.what} has no options of its own.")
    return 0


def _options(options: Any, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field with its default and its help; those of a group are dotted."""
    for field in dataclasses.fields(options):
        if "help" not in field.metadata:  # a group
            yield from _options(field.default_factory, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, {"default": field.default, "help": field.metadata["help"]}


def _filled(text: str) -> str:
    return textwrap.fill(text, 110, initial_indent="    ", subsequent_indent="    ")


def _registry(kind: str) -> Any:
    from lockgate.backbones import BACKBONES
    from lockgate.data import DATASETS
    from lockgate.methods import METHODS
    from lockgate.presets import PRESETS
    from lockgate.reproduction import TABLES

    known = {"methods": METHODS, "datasets": DATASETS, "backbones": BACKBONES, "presets": PRESETS, "tables": TABLES}
    return known[kind]
