"""What a run records: one JSON object a line, appended; cut back to the checkpoint when a run is resumed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from lockgate.errors import CheckpointError
from lockgate.runs.legacy import upgraded_names


class RunLog:
    """``records.jsonl`` of a run. Only the first rank writes."""

    def __init__(self, path: Path, meta: dict[str, Any], active: bool) -> None:
        self._path, self._active = path, active
        if active:
            so_far = _read_until(path, meta)
            self._sha, self._length = hashlib.sha256(so_far), len(so_far)
            if path.exists():
                cut_records(path, meta)  # what was written after the checkpoint will be written again

    def meta(self) -> dict[str, Any]:
        """How many bytes were written so far, and their SHA-256: for the manifest."""
        return {"records": self._length, "records_sha256": self._sha.hexdigest()} if self._active else {}

    def append(self, record: dict[str, Any]) -> None:
        """Write one record and see it to disk."""
        if self._active:
            line = (json.dumps(record) + "\n").encode()
            with self._path.open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            self._sha.update(line)
            self._length += len(line)

    def read(self) -> list[dict[str, Any]]:
        """All records so far."""
        return read_records(self._path)


def read_records(path: Path) -> list[dict[str, Any]]:
    """All records of a run; a last line that a killed process left unfinished does not count."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def read_ends(path: Path, meta: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of all tasks that had ended when the checkpoint with this ``meta`` was written."""
    records = [json.loads(line) for line in _read_until(path, meta).splitlines()]
    return [_upgraded(record) for record in records if record["event"] == "task"]


def cut_records(path: Path, meta: dict[str, Any]) -> None:
    """Forget what was recorded after the checkpoint with this ``meta``."""
    length = len(_read_until(path, meta))
    with path.open("r+b") as file:
        file.truncate(length)


def _upgraded(record: dict[str, Any]) -> dict[str, Any]:
    """A record of 0.1 promises tensors by the names they had then."""
    made = record.get("promise")
    return {**record, "promise": {**made, "tensors": upgraded_names(made["tensors"])}} if made else record


def _read_until(path: Path, meta: dict[str, Any]) -> bytes:
    """The records as they were when a checkpoint was written; raises if they are no longer there."""
    wanted = meta["records"]
    held = path.read_bytes() if path.exists() else b""
    if len(held) < wanted:
        raise CheckpointError(
            f"{path} has {len(held)} bytes, but had {wanted} when the checkpoint was written. "
            "Nothing was changed. Restore it from a copy."
        )
    so_far = held[:wanted]
    if meta.get("records_sha256") not in (None, hashlib.sha256(so_far).hexdigest()):  # None: of an earlier version
        raise CheckpointError(
            f"{path} is not what it was when the checkpoint was written. Nothing was changed. Restore it from a copy."
        )
    return so_far
