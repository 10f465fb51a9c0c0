"""One thread that answers, many that ask: a bounded queue, and whatever waits is answered together.

A request that finds no room is refused at once: the one who asks can come again, and nobody waits for ever. Images that
wait go through the network side by side, which is cheaper than one by one, the more so the longer the queue is.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from lockgate.errors import LockgateError

TOGETHER = 32
"""Images that are answered at a time, at most."""
MOST_WAITING = 128 * 2**20
"""Bytes of all uploads that are held, at most."""


class Busy(LockgateError):
    """There is no room for another request."""


@dataclass(frozen=True)
class Question:
    """One image, and what is asked about it."""

    data: bytes
    name: str = "What was sent"
    task: str | None = None
    top: int = 5
    details: bool = False
    reply: Future[dict[str, Any]] = field(default_factory=Future, compare=False)


Answer = Callable[[Sequence[Question]], list[dict[str, Any] | Exception]]


class Worker:
    """Answers questions in one thread, ``limit`` of them at most waiting or at work."""

    def __init__(self, answer: Answer, limit: int) -> None:
        self._answer, self.limit = answer, limit
        self._queue: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self.inside, self.held = 0, 0
        """Images admitted that have no reply yet, and bytes of them."""
        self._thread = threading.Thread(target=self._work, name="lockgate-answers", daemon=True)
        self._thread.start()

    def enter(self, images: int, size: int = 0) -> None:
        """Take room for so many images, of ``size`` bytes in all; ``Busy`` if there is not enough."""
        with self._lock:
            if self.inside + images > self.limit or self.held + size > MOST_WAITING:
                raise Busy(
                    f"{self.inside} images are waiting for an answer, and {self.limit} may at most. Come again in a "
                    "second; `lockgate serve --queue N` lets more wait."
                )
            self.inside += images
            self.held += size

    def leave(self, images: int, size: int = 0) -> None:
        """Give the room back."""
        with self._lock:
            self.inside -= images
            self.held -= size

    def ask(self, question: Question) -> Future[dict[str, Any]]:
        """The reply to come; the room for it was taken before."""
        self._queue.put(question)
        return question.reply

    def close(self) -> None:
        """Answer what is waiting, then stop."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            some, last = [first], False
            while len(some) < TOGETHER and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    last = True
                    break
                some.append(following)
            self._reply(some)
            if last:
                return

    def _reply(self, some: Sequence[Question]) -> None:
        try:
            replies: Sequence[dict[str, Any] | Exception] = self._answer(some)
        except Exception as error:  # whatever it is, it is told to those who asked, and the next are answered
            replies = [error] * len(some)
        for question, reply in zip(some, replies, strict=True):
            if not question.reply.set_running_or_notify_cancel():
                continue  # who asked has gone
            if isinstance(reply, Exception):
                question.reply.set_exception(reply)
            else:
                question.reply.set_result(reply)
