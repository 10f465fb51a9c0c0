"""The run's diary: one JSON object a line, appended; cut back to the checkpoint when a run is resumed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from lockgate.engine.board import Board
from lockgate.errors import CheckpointError


class Records:
    """``records.jsonl`` of a run. Only the first rank writes."""

    def __init__(self, path: Path, length: int, active: bool, board: Board | None = None) -> None:
        self._path, self._board = path, board
        self._active = active
        if active and self.length < length:
            raise CheckpointError(
                f"{path} has {self.length} bytes, but had {length} when the checkpoint was written. "
                "Nothing was changed. Restore it from a copy."
            )
        if active and path.exists():
            with path.open("r+b") as file:  # what was written after the checkpoint will be written again
                file.truncate(length)

    @property
    def length(self) -> int:
        """Bytes written so far."""
        return self._path.stat().st_size if self._path.exists() else 0

    def append(self, record: dict[str, Any]) -> None:
        """Write one record and see it to disk."""
        if self._active:
            with self._path.open("a") as file:
                file.write(json.dumps(record) + "\n")
                file.flush()
                os.fsync(file.fileno())
        if self._board is not None:
            self._board.add(record)

    def read(self) -> list[dict[str, Any]]:
        """All records so far."""
        return read_records(self._path)


def read_records(path: Path) -> list[dict[str, Any]]:
    """All records of a run; a last line that a killed process left unfinished does not count."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]
