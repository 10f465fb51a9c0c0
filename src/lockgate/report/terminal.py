"""Plain-text tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lockgate.report import formatting
from lockgate.report.load import parse_summary
from lockgate.report.schema import Layer, Scores, Summary


def matrix_text(summary: Summary | Mapping[str, Any]) -> str:
    """The accuracy matrices (a row per stage), what follows from them, and what was spent on it."""
    if not isinstance(summary, Summary):
        summary = parse_summary(summary)
    parts = [formatting.verdict(summary), *formatting.unlearnt(summary)]
    parts.append(_accuracy("Task-incremental accuracy", summary, summary.task_incremental))
    if summary.class_incremental is not None:
        parts.append(_accuracy("Class-incremental accuracy", summary, summary.class_incremental))
        if summary.svm is not None:
            parts[-1] += f"\n{formatting.SVM}: {formatting.score(summary.svm)}"
    if summary.domain_incremental is not None:
        parts.append(_accuracy("Domain-incremental accuracy", summary, summary.domain_incremental))
    if summary.inference or summary.memory is not None:
        parts.append("\n".join(["Knowing the task", *_knowing(summary)]))
    if summary.capacity:
        parts.append(_capacity(summary.capacity))
    return "\n\n".join(parts)


def _accuracy(title: str, summary: Summary, scores: Scores) -> str:
    columns = max(map(len, scores.matrix))
    rows = [["", *(f"on {j + 1}" for j in range(columns)), "mean"]]
    for i, row in enumerate(scores.matrix):
        gap = [""] * (columns - len(row))
        rows.append(
            [formatting.stage(summary, i), *map(formatting.score, row), *gap, formatting.score(formatting.mean(row))]
        )
    foot = [f"average {formatting.score(formatting.average(scores))}"]
    if scores.average_incremental is not None and not summary.at_once:
        foot.append(f"average incremental {formatting.score(scores.average_incremental)}")
    if scores.forgetting is not None and not summary.at_once:
        foot.append(f"forgetting {formatting.change(scores.forgetting).lstrip('+')}")
    if scores.backward_transfer is not None and not summary.at_once:
        foot.append(f"backward transfer {formatting.change(scores.backward_transfer)}")
    of = " on held-out images" if summary.held_out else ""
    return "\n".join([title + of, *table(rows), ", ".join(foot)])


def _knowing(summary: Summary) -> Iterator[str]:
    if summary.inference:
        yield f"  inference: {formatting.kinds(summary)}"
    if summary.inference and summary.task_found:
        shares = " ".join(map(formatting.score, summary.task_found[-1]))
        yield f"  put into the right task at the end: {shares}, mean {formatting.score(formatting.right_task(summary))}"
    if summary.memory is not None:
        yield f"  memory kept: {formatting.memory(summary)}"
    audit = summary.audit
    if audit is not None:
        same = "are the same, bit for bit" if audit.ok else "were compared, and something has changed"
        yield f"  audit {'passed' if audit.ok else 'FAILED'}: {formatting.compared(audit)} {same}"


def _capacity(layers: Sequence[Layer]) -> str:
    stages = max(len(layer.used_after) for layer in layers)
    rows = [["layer", "width", *(f"after {t + 1}" for t in range(stages)), "free"]]
    for layer in layers:
        gap = [""] * (stages - len(layer.used_after))
        used = [str(number) for number in layer.used_after]
        rows.append([layer.name, str(layer.width), *used, *gap, str(layer.width - layer.used)])
    used_up, width = sum(layer.used for layer in layers), sum(layer.width for layer in layers)
    foot = f"{used_up:,} of {width:,} filters used ({formatting.share(used_up, width)})"
    return "\n".join(["Filters in use", *table(rows), foot])


def table(rows: Sequence[Sequence[str]], widths: Sequence[int] | None = None) -> list[str]:
    """Lines of aligned columns, of their own width or of ``widths``: the first to the left, the others to the right."""
    widths = widths or [max(map(len, column)) for column in zip(*rows, strict=True)]
    line = "".join(f"  {{:{side}{width}}}" for side, width in zip("<" + ">" * len(widths), widths, strict=False))
    return [line.format(*row).rstrip() for row in rows]
