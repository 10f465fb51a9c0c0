"""What all commands share: examples in their help, `--json`, `--quiet`, `--no-color`, numbers with clear bounds."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Call = Callable[[argparse.Namespace], int]


def add_command(
    commands: Any,
    name: str,
    call: Call,
    summary: str,
    examples: Sequence[str],
    *,
    description: str | None = None,
    results: bool = True,
) -> argparse.ArgumentParser:
    """A command with what every command has; ``results``: it prints some, as JSON if asked.

    Flags are never guessed from their beginning: a new flag would change what an old script means.
    """
    said = " ".join((description or f"{summary[0].upper()}{summary[1:]}.").split())
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=textwrap.fill(said, 100),
        epilog="examples:\n" + "\n".join(f"  {example}" for example in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    output = made.add_argument_group("output")
    if results:
        output.add_argument("--json", action="store_true", help="print results as JSON")
    output.add_argument("--quiet", action="store_true", help="print results and errors, and nothing of the work")
    output.add_argument("--no-color", action="store_true", help="no colours on a terminal (as NO_COLOR=1 does)")
    made.set_defaults(call=call, json=False)
    return made


def whole(least: int | None = None, most: int | None = None) -> Callable[[str], int]:
    """Reads a whole number within bounds, or says what was wanted."""
    bounds = " from " + str(least) + (" on" if most is None else f" to {most}") if least is not None else ""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or (least is not None and number < least) or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"must be a whole number{bounds}. Got {text!r} instead.")
        return number

    return read


def number(least: float, most: float, open_below: bool = False) -> Callable[[str], float]:
    """Reads a number within bounds, or says what was wanted."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most or (open_below and value == least):
            bounds = f"above {least:g} and at most {most:g}" if open_below else f"from {least:g} to {most:g}"
            raise argparse.ArgumentTypeError(f"must be a number {bounds}. Got {text!r} instead.")
        return value

    return read


def place(text: str) -> Path:
    """Reads a path. An empty one, as of a variable that is not set, would be the folder one is in."""
    if not text:
        raise argparse.ArgumentTypeError("must be a path. Got '' instead.")
    return Path(text)


def address(text: str) -> str:
    """Reads an address to listen on. An empty one would be every address of this machine."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"must be an address, or 0.0.0.0 for all of them. Got {text!r} instead.")
    return text


def show(parsed: argparse.Namespace, found: Any, text: str | Callable[[], str]) -> None:
    """Print results: as JSON if asked, else as text."""
    if parsed.json:
        print(json.dumps(found, indent=1))
    else:
        print(text if isinstance(text, str) else text())


def log(parsed: argparse.Namespace, file: Any = None) -> Callable[[str], None]:
    """Prints a line about the work; nothing with --quiet, and beside the results where these are JSON."""

    def line(text: str) -> None:
        if not parsed.quiet:
            print(text, file=sys.stderr if parsed.json else file or sys.stdout, flush=True)

    return line


@contextlib.contextmanager
def watched(items: Iterator[Any], what: str, total: int | None, quiet: bool) -> Iterator[Iterator[Any]]:
    """The items, with a bar on a terminal while results go elsewhere: else the results show how far it is."""
    if quiet or not sys.stderr.isatty() or sys.stdout.isatty():
        yield items
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        yield iter(bar.track(items, total=total, description=what))


@contextlib.contextmanager
def colours(parsed: argparse.Namespace) -> Iterator[None]:
    """Without colours, if so asked: by the variable that rich, and most other programs, look at."""
    before = os.environ.get("NO_COLOR")
    if parsed.no_color:
        os.environ["NO_COLOR"] = "1"
    try:
        yield
    finally:
        if parsed.no_color:
            os.environ.pop("NO_COLOR")
            if before is not None:
                os.environ["NO_COLOR"] = before
