"""Work in one process per rank; what stops a rank reaches the caller as it would from here."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.multiprocessing.spawn import ProcessRaisedException

from lockgate import errors
from lockgate.errors import ConfigError, LockgateError
from lockgate.runs.directory import write_atomically

Work = Callable[[Any], dict[str, Any]]
"""What each rank does, given its Fabric."""


def launch(fabric: Any, folder: Path, work: Work) -> dict[str, Any]:
    """What ``work`` returns on the first rank."""
    left = folder / ".error.json"  # a process can leave text for another, no exception
    left.unlink(missing_ok=True)
    try:
        # Bound to the function: Fabric would try to move arguments to a device, and ours are frozen.
        result: dict[str, Any] = fabric.launch(functools.partial(_telling, work=work, left=left))
    except ProcessRaisedException as error:
        if not left.exists():
            raise
        raise _as_error(json.loads(left.read_text(encoding="utf-8"))) from error
    finally:
        left.unlink(missing_ok=True)
    return result


def _telling(fabric: Any, work: Work, left: Path) -> dict[str, Any]:
    try:
        return work(fabric)
    except LockgateError as error:
        write_atomically(left, json.dumps({"kind": type(error).__name__, "text": str(error)}))
        raise


def _as_error(left: dict[str, str]) -> LockgateError:
    kind = getattr(errors, left["kind"], LockgateError)
    text = left["text"]
    return LockgateError(text) if kind is ConfigError else kind(text)  # the text is whole already
