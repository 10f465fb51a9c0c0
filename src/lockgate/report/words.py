"""Numbers and verdicts in the words a reader wants, the same in the terminal and on the page."""

from __future__ import annotations

from lockgate.report.schema import Row, Scores, Summary

ABSENT = "–"
LOST = 0.0005  # below this, a drop in accuracy is not visible in three digits


def score(value: float | None) -> str:
    """An accuracy, three digits."""
    return ABSENT if value is None else f"{value:.3f}"


def change(value: float | None) -> str:
    """A difference of accuracies, with its sign; no change has none."""
    if value is None:
        return ABSENT
    return f"{value:+.3f}" if abs(value) >= LOST else "0.000"


def count(value: float | None) -> str:
    """A whole number with its thousands apart."""
    return ABSENT if value is None else f"{value:,.0f}"


def share(part: float | None, whole: float | None) -> str:
    """A part of a whole, in per cent."""
    return ABSENT if part is None or not whole else f"{100 * part / whole:.1f} %"


def duration(seconds: float | None) -> str:
    """Seconds below a minute and a half, then minutes, then hours."""
    if seconds is None:
        return ABSENT
    if seconds < 90:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def plural(number: int, noun: str) -> str:
    """`1 task`, `5 tasks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def mean(row: Row) -> float | None:
    """Mean of the numbers that are there."""
    numbers = [value for value in row if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def average(scores: Scores) -> float | None:
    """Average accuracy at the end; if the run did not note it, the mean of the last row, which is its definition."""
    return scores.average if scores.average is not None else mean(scores.matrix[-1])


def stage(summary: Summary, row: int) -> str:
    """Name of a row of the accuracy matrix."""
    return "after all" if summary.at_once else f"after {row + 1}"


def subject(summary: Summary) -> str:
    """Which run this is."""
    return f"{summary.method} on {summary.dataset}, {plural(summary.tasks, 'task')}, seed {summary.seed}"


def outcome(summary: Summary) -> str:
    """What came of it. "Nothing forgotten" is only ever said on the word of an audit, never because accuracy held."""
    head = f"{score(average(summary.task_incremental))} average"
    forgetting = summary.task_incremental.forgetting
    if summary.audit is not None:
        return f"{head}, " + ("nothing forgotten: audit passed" if summary.audit.ok else "audit FAILED")
    if summary.at_once:
        return f"{head}, all tasks learnt together"
    if forgetting is None or summary.tasks == 1:
        return head
    return f"{head}, {score(forgetting)} forgotten" if forgetting >= LOST else f"{head}, no accuracy lost"


def verdict(summary: Summary) -> str:
    """The run in one sentence."""
    return f"{subject(summary)}: {outcome(summary)}"
