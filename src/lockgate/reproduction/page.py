"""One self-contained HTML page per table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lockgate.report.gate_figure import firing
from lockgate.report.html import address, environment
from lockgate.report.schema import Picture
from lockgate.report.svg import Figure
from lockgate.reproduction import figures as draw
from lockgate.reproduction.cells import machines, ours, printed
from lockgate.reproduction.results import Result

Kind = Literal["lines", "scatter", "gates"]
"""What a table draws."""
Figures = dict[str, list[Figure]]
"""By group."""


@dataclass(frozen=True)
class Shown:
    """A picture on the page."""

    title: str
    caption: str
    uri: str
    width: int
    height: int


def figures_of(kind: Kind | None, result: Result, runs: Mapping[str, Path]) -> Figures:
    """The figures of a table, by group; ``runs`` holds the first finished run of each group."""
    made: Figures = {}
    for group in result.groups:
        figure: Figure | None = None
        if kind == "lines":
            figure = draw.by_buffer(result, group)
        elif kind == "scatter":
            figure = draw.by_memory(result, group)
        elif kind == "gates" and group in runs:
            found = gates_of(runs[group])
            figure = firing(found["layer"], found["firing"][found["layer"]])
        made[group] = [figure] if figure is not None else []
    return made


def gates_of(run: Path) -> dict[str, Any]:
    """What was measured of a run's gates."""
    found: dict[str, Any] = json.loads((run / "gates.json").read_text(encoding="utf-8"))
    return found


def pictures_of(kind: Kind | None, runs: Mapping[str, Path]) -> dict[str, list[Shown]]:
    """The pictures of a table, by group: only that of the gates has any."""
    return {group: [_strips(run)] for group, run in runs.items()} if kind == "gates" else {}


def page(result: Result, figures: Figures, pictures: Mapping[str, Sequence[Shown]]) -> str:
    """The page as a string; the same results give the same bytes."""
    return (
        environment(Path(__file__).parent)
        .get_template("table.html")
        .render(
            result=result,
            figures=figures,
            pictures=pictures,
            commands=list(dict.fromkeys(command for row in result.rows for command in row.commands)),
            hardware=machines(result.rows),
            ours=ours,
            printed=printed,
        )
    )


def _strips(run: Path) -> Shown:
    picture = Picture(0, (run / "pictures" / "gates.png").read_bytes())
    known = gates_of(run)
    caption = (
        f"Test images of each task (a row each) for which gate {known['gate']} of {known['layer']} fires (left) "
        "and for which it does not (right)."
    )
    return Shown("Images that trigger a gate, and images that do not", caption, address(picture), *picture.size)
