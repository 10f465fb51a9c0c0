"""The figure of the README: accuracy without the task as tasks arrive, on the embedded digits."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from lockgate.report import formatting, load
from lockgate.report.charts import EDGES, HEIGHT, VIEW, WIDTH
from lockgate.report.svg import Figure, Frame, document, element, hint, text, ticks, trace
from lockgate.reproduction.paper_table import Line
from lockgate.reproduction.plan import taken
from lockgate.reproduction.rows import LOCKGATE, PRINTED

FILE = "over-tasks.svg"
SHOWN = (LOCKGATE, PRINTED, "ER", "ER-ACE", "DER++", "iCaRL-mean")
"""Ours, and the baselines that keep as many images and are hardest to beat."""


def over_tasks(lines: Sequence[Line], seeds: int, known: Mapping[str, Path]) -> Figure | None:
    """Mean accuracy on the tasks seen so far, no task given, after each task: the mean over the seeds that were run."""
    curves = {}
    for name in SHOWN:
        runs = [run for line in lines if line.row == name for s in range(seeds) if (run := taken(known, line, s))]
        if found := [curve for run in runs if (curve := _curve(run))]:
            curves[name] = [statistics.fmean(stage) for stage in zip(*found, strict=True)], len(found)
    return _drawn(curves) if curves else None


def _curve(run: Path) -> list[float]:
    """Of one run, after each task; empty where it has no accuracy without the task."""
    scores = load.read(run).summary.class_incremental
    means = [formatting.mean(row) for row in scores.matrix] if scores else []
    return [mean for mean in means if mean is not None]


def _drawn(curves: Mapping[str, tuple[Sequence[float], int]]) -> Figure:
    tasks = max(len(line) for line, _ in curves.values())
    lowest = min(min(line) for line, _ in curves.values())
    frame = Frame((1, tasks), ticks(lowest, 1.0), **{**EDGES, "right": WIDTH - 20})
    body = [*frame.grid()]
    body += [text(frame.at(i + 1, None)[0], frame.bottom + 17, str(i + 1), "tick", "middle") for i in range(tasks)]
    body.append(text((frame.left + frame.right) / 2, HEIGHT - 5, "tasks learnt", "label", "middle"))
    legend: list[tuple[str, str]] = []
    for n, (name, (line, seeds)) in reversed(list(enumerate(curves.items()))):  # ours is drawn last, above all others
        said = f"{name}: {', '.join(map(formatting.score, line))} ({formatting.plural(seeds, 'seed')})"
        points = [frame.at(i, value) for i, value in enumerate(line, 1)]
        body.append(element("path", hint(said), d=trace(points), class_=f"line s{n}"))
        legend.insert(0, (name, f"s{n}"))
    title = "Accuracy as tasks arrive"
    caption = "Digits, two classes a task, no task given: mean accuracy on all tasks learnt so far."
    return Figure(title, caption, document(title, caption, body, viewBox=VIEW), tuple(legend))
