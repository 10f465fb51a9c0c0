"""One self-contained HTML page for a set of runs: side by side in a table, and as curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lockgate.report import formatting
from lockgate.report.charts import COLOURS, EDGES, HEIGHT, VIEW, WIDTH, lowest
from lockgate.report.html import environment, write_page
from lockgate.report.load import read
from lockgate.report.schema import Run, Scores
from lockgate.report.svg import Figure, Frame, document, element, hint, text, ticks, trace

NAME = "comparison.html"


def write(folders: Sequence[Path], out: Path | None = None) -> Path:
    """Write the page of several finished runs to ``out``, or beside the first of them, and return its path."""
    target = out or folders[0].parent / NAME
    write_page(target, render([read(folder) for folder in folders]))
    return target


def render(runs: Sequence[Run]) -> str:
    """The page as a string; the same runs give the same bytes."""
    curves = [_curves(runs, "Task-incremental", "the task given")]
    curves.append(_curves(runs, "Class-incremental", "the task not given"))
    return (
        environment()
        .get_template("runs.html")
        .render(runs=runs, names=_names(runs), curves=[figure for figure in curves if figure is not None])
    )


def _names(runs: Sequence[Run]) -> list[str]:
    """The folder's name, with its parent's where two are alike."""
    folders = [run.folder.resolve() for run in runs]
    short = [folder.name for folder in folders]
    return [
        name if short.count(name) == 1 else f"{folder.parent.name}/{name}"
        for name, folder in zip(short, folders, strict=True)
    ]


def _curves(runs: Sequence[Run], kind: str, how: str) -> Figure | None:
    """Mean accuracy over the tasks seen so far, a line for each run that has several stages."""
    chosen: list[tuple[str, Scores]] = []
    for name, run in zip(_names(runs), runs, strict=True):
        scores = run.summary.task_incremental if kind.startswith("Task") else run.summary.class_incremental
        if scores is not None and len(scores.matrix) > 1:
            chosen.append((name, scores))
    if not chosen:
        return None
    lines = [(name, [formatting.mean(row) for row in scores.matrix]) for name, scores in chosen]
    stages = max(len(line) for _, line in lines)
    values = [value for _, line in lines for value in line if value is not None]
    frame = Frame((0, stages - 1), ticks(lowest(values), 1.0), **(EDGES | {"left": 54.0, "right": WIDTH - 20}))
    body = [*frame.grid()]
    body += [text(frame.at(i, None)[0], frame.bottom + 17, str(i + 1), "tick", "middle") for i in range(stages)]
    body.append(text((frame.left + frame.right) / 2, HEIGHT - 5, "after task", "label", "middle"))
    for n, (name, line) in enumerate(lines):
        said = f"{name}: " + ", ".join(map(formatting.score, line))
        data = trace([frame.at(i, value) for i, value in enumerate(line)])
        body.append(element("path", hint(said), d=data, class_=f"line s{n % COLOURS}"))
    caption = f"Mean accuracy over the tasks seen so far, {how}."
    svg = document(f"{kind} accuracy", caption, body, viewBox=VIEW)
    return Figure(
        f"{kind} accuracy", caption, svg, tuple((name, f"s{n % COLOURS}") for n, (name, _) in enumerate(lines))
    )
