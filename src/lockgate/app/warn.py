"""What a user should know of a task just learnt: answers that are poor without the task, or have become so.

Measured on images held out: of the new task its test images, of past ones their probes, of which there are few; so
small differences are not worth a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

APART = 0.15
"""Accuracy without the task may be so much below that with it."""
LOST = 0.1
"""So much may a past task lose by a new one, the task not given."""
MORE_EPOCHS = ", or give this one more epochs; a new model can keep more images to tell tasks apart (--keep)"
AGAIN = " and learn it with more epochs; a new model can keep more images to tell tasks apart (--keep)"
FEWEST = 3
"""Images that a loss must concern."""


def warnings(records: Sequence[Mapping[str, Any]], names: Sequence[str], probes: Sequence[int]) -> list[str]:
    """A sentence, with numbers and a remedy, for everything that is poor after the last of ``records``.

    ``names`` and ``probes`` of all tasks: accuracy of past ones is on so many images.
    """
    last = records[-1]
    solved = bool((last.get("memory") or {}).get("statistics"))  # nothing is trained, nothing could be kept
    now = _by_task(last, probes)
    new = len(records) - 1
    found = []
    given = last["task_incremental"][-1]
    if new in now and len(records) > 1 and given - now[new] > APART:
        found.append(
            f"without the task, {now[new]:.3f} of the held-out images of {names[new]!r} are right; with it, "
            f"{given:.3f}. Say the task when you ask (--task){'' if solved else MORE_EPOCHS}."
        )
    before = _by_task(records[-2], probes) if len(records) > 1 else {}
    for task, right in now.items():
        was = before.get(task)
        if task == new or was is None or was - right <= LOST or (was - right) * probes[task] < FEWEST:
            continue
        found.append(
            f"without the task, {names[task]!r} went from {was:.3f} to {right:.3f} on its {probes[task]} probes; with "
            f"it, nothing has changed. Say the task when you ask (--task), or take the new task back (`lockgate undo`)"
            f"{'' if solved else AGAIN}."
        )
    return found


def _by_task(record: Mapping[str, Any], probes: Sequence[int]) -> dict[int, float]:
    """Accuracy without the task, by task: those past ones that keep no probes were not tested."""
    row = record["class_incremental"]
    if row is None:
        return {}
    newest = record["task"]
    tested = [task for task in range(newest + 1) if task == newest or probes[task]]
    return dict(zip(tested, row, strict=True))
