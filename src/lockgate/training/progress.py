"""What a person watching a run sees: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class Progress:
    """Progress over all steps of a run. Silent on ranks other than the first."""

    def __init__(self, total: int, done: int, quiet: bool = False) -> None:
        self._quiet = quiet
        self._bar: Any = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            columns = [
                TextColumn("[bold]{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            ]
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._task = self._bar.add_task("", total=total, completed=done, note="")

    def __enter__(self) -> Progress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def stage(self, text: str) -> None:
        """What is being learnt now."""
        if self._bar:
            self._bar.update(self._task, description=text)

    def step(self, note: str | None = None) -> None:
        """One more step is done."""
        if self._bar:
            self._bar.update(self._task, advance=1, **({} if note is None else {"note": note}))

    def log(self, line: str) -> None:
        """A line that stays."""
        if self._quiet:
            return
        if self._bar:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)
