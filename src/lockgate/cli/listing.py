"""The command `lockgate list`: what there is to choose from, and the options of a method."""

from __future__ import annotations

import argparse
import dataclasses
import json
import textwrap
from typing import Any

_KINDS = ("methods", "datasets", "backbones", "presets", "tables")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    listing = commands.add_parser("list", help="show what there is to choose from")
    listing.add_argument("what", nargs="?", metavar="KIND|METHOD", help=f"{', '.join(_KINDS)}; or a method's options")
    listing.set_defaults(call=_list)


def _list(parsed: argparse.Namespace) -> int:
    if parsed.what is not None and parsed.what not in _KINDS:
        return _list_options(parsed.what)
    for kind in [parsed.what] if parsed.what else _KINDS:
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


def _list_options(method: str) -> int:
    """What can be set of a method with --options.NAME, its default and what it means."""
    options = _registry("methods")[method].Options
    _print_options(options, "--options.")
    if not dataclasses.fields(options):
        print(f"{method} has no options of its own.")
    return 0


def _print_options(options: Any, prefix: str) -> None:
    """Every field with its default and its help; those of a group are dotted."""
    for field in dataclasses.fields(options):
        if "help" not in field.metadata:  # a group
            _print_options(field.default_factory, f"{prefix}{field.name}.")
            continue
        meaning = textwrap.fill(field.metadata["help"], 110, initial_indent="    ", subsequent_indent="    ")
        print(f"{prefix}{field.name} {json.dumps(field.default)}\n{meaning}")


def _registry(kind: str) -> Any:
    from lockgate.backbones import BACKBONES
    from lockgate.data import DATASETS
    from lockgate.methods import METHODS
    from lockgate.presets import PRESETS
    from lockgate.reproduction import TABLES

    known = {"methods": METHODS, "datasets": DATASETS, "backbones": BACKBONES, "presets": PRESETS, "tables": TABLES}
    return known[kind]
