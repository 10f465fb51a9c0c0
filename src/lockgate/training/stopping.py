"""Being asked to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED = 130
"""What a command returns that was stopped, by Ctrl-C or `kill`."""


@contextmanager
def asked_to_stop() -> Iterator[None]:
    """SIGTERM (of `kill`, of a batch system) as Ctrl-C: it must not leave processes behind that nobody watches.

    Unlike Ctrl-C it also reaches what was started in the background, where shells have SIGINT ignored.
    """
    if threading.current_thread() is not threading.main_thread():  # where Python allows no handlers
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
