"""One self-contained HTML page per run: no network, no scripts, no fonts to fetch."""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockgate.errors import RunFolderError
from lockgate.report import charts, formatting, load
from lockgate.report.gate_figure import firing
from lockgate.report.schema import Picture, Row, Run, Scores, Summary

if TYPE_CHECKING:
    from jinja2 import Environment

NAME = "report.html"
Cell = tuple[str, str, str]  # the number, what it lost since it was learnt (or ""), the strength of its colour


KINDS = {
    "argmax": "the most likely task, then the best class of its head (the paper's)",
    "joint": "the most likely pair of task and class",
    "nearest mean": "the class whose exemplars have the nearest mean (iCaRL's)",
    "outputs": "the class with the largest output of the network",
}


@dataclass(frozen=True)
class Sample:
    """A picture of generated images: its address, its size in pixels, and how its generator was trained, if known."""

    task: int
    uri: str
    width: int
    height: int
    training: str


def write(run: Path, out: Path | None = None) -> Path:
    """Write the page of a finished run to ``out``, or to `run/report.html`, and return its path."""
    target = out or run / NAME
    write_page(target, render(load.read(run)))
    return target


def write_page(target: Path, page: str) -> None:
    """Write a page so that it is there whole or not at all."""
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_text(page, encoding="utf-8")
        os.replace(partial, target)
    except OSError as error:
        with contextlib.suppress(OSError):  # a file system that is read-only refuses this as well
            partial.unlink()
        raise RunFolderError(
            f"{target} cannot be written (got: {error}). Wanted: a folder that exists, with room and permission to "
            "write. Remedy: make it, or choose another file with `--out`."
        ) from error


def render(run: Run) -> str:
    """The page as a string; the same run gives the same bytes."""
    summary = run.summary
    curves = [charts.losses(run), charts.held_out(run), charts.open_gates(run), charts.critic(run)]
    curves.append(charts.accuracy(summary))
    return (
        environment()
        .get_template("page.html")
        .render(
            run=run,
            summary=summary,
            tiles=_tiles(summary),
            matrices=_matrices(summary),
            found=heat(summary.task_found) if summary.inference else [],
            kinds=KINDS,
            samples=_samples(run),
            kept=None if run.kept is None else Sample(0, address(run.kept), *run.kept.size, ""),
            gates=[firing(name, rows) for name, rows in _shown(summary.gates)],
            curves=[figure for figure in curves if figure is not None],
            capacity=charts.capacity(summary.capacity),
            columns=max((len(layer.used_after) for layer in summary.capacity), default=0),
        )
    )


def heat(matrix: Sequence[Row]) -> list[list[Cell]]:
    """The rows of a heat map: a cell says what it lost against the stage at which its task was learnt."""
    rows = []
    for i, row in enumerate(matrix):
        cells = []
        for j, value in enumerate(row):
            learnt = matrix[j][j] if j < i else None
            lost = learnt - value if learnt is not None and value is not None else 0.0
            strength = 0.05 + 0.5 * (value or 0.0) ** 2  # the square sets apart what is close to one
            cells.append(
                (formatting.score(value), f"▼ {lost:.3f}" if lost >= formatting.LOST else "", f"{strength:.3f}")
            )
        rows.append(cells)
    return rows


def _matrices(summary: Summary) -> list[tuple[str, str, Scores, list[list[Cell]]]]:
    describe = "An answer among the classes of one task: the task of a test image is given."
    found = "An answer among all classes seen so far: the task of a test image is not given."
    kinds = (
        ("Task-incremental", describe, summary.task_incremental),
        ("Class-incremental", found, summary.class_incremental),
    )
    return [(name, note, scores, heat(scores.matrix)) for name, note, scores in kinds if scores is not None]


def _tiles(summary: Summary) -> list[tuple[str, str, str]]:
    """`(label, value, note)`: what a reader looks for first."""
    task, classes, macs = summary.task_incremental, summary.class_incremental, summary.macs
    tiles = [("task-incremental", formatting.score(formatting.average(task)), "average accuracy, task given")]
    lost, lost_note = task.forgetting, "accuracy lost on past tasks"
    if classes is not None:
        tiles.append(
            ("class-incremental", formatting.score(formatting.average(classes)), "average accuracy, task not given")
        )
    if classes is not None and summary.svm is not None:
        tiles.append((formatting.SVM, formatting.score(summary.svm), "task not given, no network at all"))
    if classes is not None and summary.inference:
        tiles = [*tiles[1:], tiles[0]]
        lost, lost_note = classes.forgetting, "class-incremental accuracy lost on past tasks"
        if summary.task_found:
            tiles.append(
                ("right task", formatting.score(formatting.right_task(summary)), "of test images put into their task")
            )
    if lost is not None and not summary.at_once:
        tiles.append(("forgetting", formatting.change(lost).lstrip("+"), lost_note))
    if summary.memory is not None:
        tiles.append(("memory", formatting.mebibytes(summary.memory.bytes), f"{formatting.images_kept(summary)} kept"))
    if summary.capacity:
        used, width = sum(x.used for x in summary.capacity), sum(x.width for x in summary.capacity)
        tiles.append(("capacity", formatting.share(used, width), f"{used:,} of {width:,} filters in use"))
    if macs is not None and macs.dense and macs.task_incremental:
        tiles.append(
            ("computation", formatting.share(macs.task_incremental[-1], macs.dense), formatting.of_dense(macs))
        )
    tiles.append(("time", formatting.duration(summary.seconds), f"for {formatting.plural(summary.tasks, 'task')}"))
    return tiles


def _samples(run: Run) -> list[Sample]:
    samples = []
    for picture in run.pictures:
        epochs = [epoch for epoch in run.generators if epoch.task == picture.task]
        time = formatting.duration(sum(epoch.seconds or 0.0 for epoch in epochs))
        training = f"Trained for {formatting.plural(len(epochs), 'epoch')}, {time}." if epochs else ""
        samples.append(Sample(picture.task, address(picture), *picture.size, training))
    return samples


def address(picture: Picture) -> str:
    """The picture itself, as an address that needs no network."""
    return "data:image/png;base64," + base64.b64encode(picture.png).decode("ascii")


def _shown(gates: Mapping[str, tuple[Row, ...]]) -> list[tuple[str, tuple[Row, ...]]]:
    """The first and the last layer: a page is not the place for twenty."""
    layers = list(gates.items())
    return layers if len(layers) < 3 else [layers[0], layers[-1]]


def environment(*folders: Path) -> Environment:
    """Where templates are found (here, and in ``folders``), and what they may say."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([Path(__file__).parent, *folders]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["formatting"] = formatting
    return environment
