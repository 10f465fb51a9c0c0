"""Pages of the documentation, and what a reader would do with them: follow links, type commands, run Python."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lockgate.cli.main import main

TOP = Path(__file__).parents[2]
PAGES = [*sorted(TOP.glob("*.md")), *sorted((TOP / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.M | re.S)


def name(page: Path) -> str:
    return str(page.relative_to(TOP))


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    """Fenced blocks of these languages, in order; '' is a block without one, which shows and is not run."""
    return [(kind, text) for _, kind, text in _FENCE.findall(page.read_text()) if kind in languages]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def commands(page: Path) -> Iterator[list[str]]:
    """Every `lockgate` command that the page shows, in blocks or within a line, as words."""
    lines = [line for _, text in blocks(page, "", "sh") for line in text.splitlines()]
    lines += re.findall(r"(?<!`)`(lockgate [^`\n]+)`", prose(page))
    for line in lines:
        if line.strip().startswith("lockgate "):
            yield shlex.split(line.split(" > ")[0], comments=True)[1:]


def follow(page: Path, names: dict[str, Any], more: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Do what a page says, in the current folder: what was typed, with what was printed.

    ``more`` replaces parts of the text, each of which must be there: a reader's images are more than a test's. Python
    that begins with the name of a file, ``# own.py``, is saved there too, as the page tells its reader.
    """
    log = []
    absent = [part for part in more or {} if part not in page.read_text()]
    assert not absent, absent
    for kind, block in blocks(page, "python", "sh"):
        for part, smaller in (more or {}).items():
            block = block.replace(part, smaller)
        if kind == "python":
            save(block)
        for typed in [block] if kind == "python" else block.splitlines():
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(typed, name(page), "exec"), names) if kind == "python" else shell(typed)
            log.append((typed, printed.getvalue()))
    return log


def save(block: str) -> None:
    """Write Python that begins with the name of a file to that file, in the current folder."""
    if named := re.match(r"# (\w+\.py)\n", block):
        Path(named[1]).write_text(block)


def shell(line: str) -> None:
    """One line as a shell would do it; `lockgate` without the seconds that a new process takes to import torch."""
    program, *words = shlex.split(line)
    target = Path(words.pop()) if ">" in words and words.remove(">") is None else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed) if target else contextlib.nullcontext():
        if program == "lockgate":
            assert main(words) == 0, line
        else:
            subprocess.run([program, *words], check=True)
    if target:
        target.write_text(printed.getvalue())


def printed(log: Sequence[tuple[str, str]], start: str) -> list[str]:
    """What was printed by all that begins so."""
    return [text for typed, text in log if typed.startswith(start)]
