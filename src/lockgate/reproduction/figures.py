"""Figures of tables: accuracy by buffer, and accuracy by memory."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from html import escape

from lockgate.report import formatting
from lockgate.report.charts import COLOURS, EDGES, HEIGHT, VIEW, WIDTH
from lockgate.report.svg import Figure, Frame, document, element, hint, text, ticks, trace
from lockgate.reproduction.results import Result

STYLE = """
text { fill: #1b2428; font: 13px system-ui, sans-serif; } .tick { fill: #586469; font-size: 12px; }
.rule { stroke: #e1e4e1; } .line, .faint { fill: none; stroke: currentColor; stroke-width: 2; stroke-linecap: round; }
.faint { stroke-dasharray: 2 5; opacity: .6; } .dot { fill: currentColor; } .hole { fill: none; stroke: currentColor; }
.s0 { color: #0f6f68; } .s1 { color: #b8660b; } .s2 { color: #4657c4; } .s3 { color: #ad2f63; } .s4 { color: #5f7416; }
.s5 { color: #5a6a72; }
@media (prefers-color-scheme: dark) {
text { fill: #e6e9ed; } .tick { fill: #9aa5b1; } .rule { stroke: #3a4249; }
.s0 { color: #4fbfb0; } .s1 { color: #e3a04f; } .s2 { color: #96a4f5; } .s3 { color: #ec86ae; } .s4 { color: #b0c25e; }
.s5 { color: #a3b1b7; } }
"""
"""For a picture outside of a page; inside, the page's own style reaches into it."""

ACROSS = 640
"""Pixels of a picture in a page that sets no width; narrower pages shrink it."""


def alone(figure: Figure) -> str:
    """The picture as a file of its own, with its style and, since it has no page around it, its legend above."""
    names = [
        element("text", escape(name), x=56 + 205 * (i % 2), y=16 * (i // 2), class_=kind, style="fill: currentColor")
        for i, (name, kind) in enumerate(figure.legend)
    ]  # two columns: names are long
    room = 16 * math.ceil(len(names) / 2) + 6 if names else 0
    legend = element("g", "".join(names), transform=f"translate(0 {14 - room})") if names else ""
    taller = re.sub(
        r'viewBox="0 0 (\d+) (\d+)"',
        lambda m: f'viewBox="0 {-room} {m[1]} {int(m[2]) + room}" width="{ACROSS}"',  # else as wide as a page
        figure.svg,
        count=1,
    )
    return taller.replace("</svg>", f"{element('style', STYLE)}{legend}</svg>") + "\n"


def by_buffer(result: Result, group: str) -> Figure | None:
    """Accuracy over the capacity of the memory: ours as lines, the paper's as dots."""
    columns = result.columns(group)
    sizes = [float(re.sub(r"\D", "", column)) for column in columns]
    rows = [row for row in result.of(group) if row.run]
    values = [v for row in result.of(group) for n in row.numbers.values() for v in (n.mean, n.paper) if v is not None]
    if not rows:
        return None
    frame = Frame((sizes[0], sizes[-1]), ticks(min(values) - 0.02, 1.0), **{**EDGES, "right": WIDTH - 20})
    body = [*frame.grid(), *_axis(frame, sizes, "images kept, C")]
    legend = []
    for n, row in enumerate(result.of(group)):
        cells = [row.numbers.get(column) for column in columns]
        line = [frame.at(x, cell.mean if cell else None) for x, cell in zip(sizes, cells, strict=True)]
        kind, drawn = f"s{n % COLOURS}", "line" if n < COLOURS else "faint"  # as many again are dotted
        said = ", ".join(formatting.score(cell.mean if cell else None) for cell in cells)
        body.append(element("path", hint(f"{row.name}: {said}"), d=trace(line), class_=f"{drawn} {kind}"))
        for x, cell in zip(sizes, cells, strict=True):
            if cell and cell.paper is not None:
                body.append(_dot(*frame.at(x, cell.paper), f"paper, {row.name}: {formatting.score(cell.paper)}", kind))
            if cell and cell.mean is not None:  # a lone one has no line
                said = f"{row.name}: {formatting.score(cell.mean)}"
                body.append(_dot(*frame.at(x, cell.mean), said, kind, filled=True))
        legend.append((row.name if drawn == "line" else f"{row.name} (dotted)", kind))
    legend.append(("rings: the paper", "s5"))
    caption = "Accuracy without the task, by images kept. Dots and lines: measured here. Rings: the paper's numbers."
    title = f"{result.title}: {group}"
    return Figure(title, caption, document(title, caption, body, viewBox=VIEW), tuple(legend))


def by_memory(result: Result, group: str) -> Figure | None:
    """Accuracy over the MiB kept: measured ones as dots, the paper's as rings, both with their names."""
    rows = [row for row in result.of(group) if row.run]
    if not rows:
        return None
    points = []
    for row in result.of(group):
        accuracy, size = (row.numbers[c] for c in ("accuracy", "MiB"))
        points += [(row.name, size.mean, accuracy.mean, True), (row.name, size.paper, accuracy.paper, False)]
    known = [(name, x, y, mine) for name, x, y, mine in points if x is not None and y is not None and x > 0]
    logs = [math.log10(x) for _, x, _, _ in known]
    frame = Frame((min(logs) - 0.1, max(logs) + 0.2), ticks(min(y for _, _, y, _ in known) - 0.02, 1.0), **EDGES)
    body = [*frame.grid()]
    for mark in (0.3, 1, 3, 10, 30):
        if frame.x[0] <= math.log10(mark) <= frame.x[1]:
            across, _ = frame.at(math.log10(mark), None)
            body.append(text(across, frame.bottom + 17, f"{mark:g}", "tick", "middle"))
    body.append(text((frame.left + frame.right) / 2, HEIGHT - 5, "MiB kept of past tasks", "label", "middle"))
    for name, x, y, mine in known:
        across, down = frame.at(math.log10(x), y)
        assert down is not None
        said = f"{name}, {'here' if mine else 'paper'}: {formatting.score(y)} with {x:.2f} MiB"
        body.append(_dot(across, down, said, "s0" if mine else "s1", filled=mine))
        side = ("end", -8) if mine else ("start", 8)  # both may stand at the same MiB
        body.append(text(across + side[1], down + 4, name, "tick", side[0]))
    caption, legend = "Accuracy without the task, by what is kept of past tasks. Dots: measured here.", [("here", "s0")]
    if not all(mine for *_, mine in known):  # the paper has no such figure of every data set
        caption, legend = f"{caption} Rings: the paper's numbers.", [*legend, ("paper", "s1")]
    title = f"{result.title}: {group}"
    return Figure(title, caption, document(title, caption, body, viewBox=VIEW), tuple(legend))


def _axis(frame: Frame, marks: Sequence[float], label: str) -> Iterator[str]:
    for mark in marks:
        yield text(frame.at(mark, None)[0], frame.bottom + 17, f"{mark:g}", "tick", "middle")
    yield text((frame.left + frame.right) / 2, HEIGHT - 5, label, "label", "middle")


def _dot(x: float, y: float | None, said: str, kind: str, filled: bool = False) -> str:
    return element("circle", hint(said), cx=x, cy=y, r=4, class_=f"{'dot' if filled else 'hole'} {kind}")
