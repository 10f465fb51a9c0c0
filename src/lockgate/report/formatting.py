"""Numbers and verdicts in the words a reader wants, the same in the terminal and on the page."""

from __future__ import annotations

from lockgate.report.schema import Audit, Macs, Row, Scores, Summary

ABSENT = "–"
LOST = 0.0005  # below this, a drop in accuracy is not visible in three digits
MIB = 2**20
SVM = "SVM on the stored images"
"""What is said beside a class-incremental number, where images are kept and small."""


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


def of_dense(macs: Macs) -> str:
    """What a share of ``macs.dense`` is a share of."""
    return "of the dense network's MACs" + (" before it grew" if macs.grown else "") + ", task given"


def mebibytes(number: int) -> str:
    """Bytes in MiB, two digits; what is there is never said to be none."""
    return f"{number / MIB:.2f} MiB" if number == 0 or number >= 0.005 * MIB else "< 0.01 MiB"


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


def right_task(summary: Summary) -> float | None:
    """Share of test images put into the right task after the last one, mean over the tasks."""
    return mean(summary.task_found[-1]) if summary.task_found else None


def images_kept(summary: Summary) -> str:
    """What stands for past tasks: `500 images`, `statistics`, `generators`."""
    if summary.memory is None or not summary.memory.bytes:
        return "nothing"
    if summary.memory.images:
        return plural(summary.memory.images, "image")
    return "statistics of classes" if summary.memory.statistics else "generators"


def memory(summary: Summary) -> str:
    """What is kept of past tasks, and its size."""
    return f"{images_kept(summary)}, {mebibytes(summary.memory.bytes if summary.memory else 0)}"


def winner(summary: Summary) -> str:
    """Which kind of inference has the better average at the end, and by how much; nothing if there is one kind."""
    known = [(value, kind) for kind, scores in summary.inference.items() if (value := average(scores)) is not None]
    if len(known) < 2:
        return ""
    (best, kind), (second, _) = sorted(known, reverse=True)[:2]
    return f"{kind} wins by {score(best - second)}" if best - second >= LOST else "no difference"


def inference_used(summary: Summary) -> str | None:
    """The kind of inference that the class-incremental numbers come from; `None` where that cannot be told."""
    same = [kind for kind, scores in summary.inference.items() if scores == summary.class_incremental]
    return same[0] if len(same) == 1 else None


def kinds(summary: Summary) -> str:
    """Class-incremental average by every kind of inference, which one wins, and which one was used elsewhere."""
    said = ", ".join(f"{kind} {score(average(scores))}" for kind, scores in summary.inference.items())
    wins, used = winner(summary), inference_used(summary)
    return said + (f": {wins}" if wins else "") + (f" (the matrix above is of {used})" if used else "")


def compared(audit: Audit) -> str:
    """What an audit looked at."""
    features = f", {plural(audit.streams, 'set')} of stream features" if audit.streams else ""
    return (
        f"{plural(audit.tensors or 0, 'locked tensor')}{features} and the logits of {plural(audit.logits or 0, 'task')}"
    )


def headline(summary: Summary) -> str:
    """What came of it. "Nothing forgotten" is only ever said on the word of an audit, never because accuracy held.

    It is not said at all of a method that finds the task by itself: how it does so goes on changing with each task.
    """
    if summary.inference and summary.class_incremental is not None:
        parts = [f"{score(average(summary.class_incremental))} class-incremental average"]
        parts.append(f"{score(average(summary.task_incremental))} with the task given")
        if summary.task_found:
            parts.append(f"right task {score(right_task(summary))}")
        if summary.memory is not None:
            parts.append(f"{memory(summary)} kept")
        if summary.audit is not None:
            parts.append("audit passed" if summary.audit.ok else "audit FAILED")
        return "; ".join(parts)
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
    return f"{subject(summary)}: {headline(summary)}"


def unlearnt(summary: Summary) -> list[str]:
    """A line on the tasks that ended at chance, if any did."""
    if not summary.unlearnt:
        return []
    tasks = ", ".join(f"{task + 1} ({score(right)})" for task, right in summary.unlearnt.items())
    return [f"Not learnt, by their held-out images no better than guessing: task {tasks}."]
