"""Results of a table from the runs that are finished: tables, figures, a page, and REPRODUCTION.md."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from lockgate.report import load
from lockgate.report.schema import Summary
from lockgate.reproduction.figures import alone
from lockgate.reproduction.markdown import csv_text, markdown
from lockgate.reproduction.measure import measurable, measure
from lockgate.reproduction.page import figures_of, page, pictures_of
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule
from lockgate.reproduction.plan import taken
from lockgate.reproduction.results import COMMIT, Number, Result, ResultRow
from lockgate.reproduction.rows import LOCKGATE, PRINTED
from lockgate.runs.directory import RunFolder, write_atomically
from lockgate.runs.legacy import upgraded_command


def gather(
    paper_table: PaperTable,
    schedule: Schedule,
    lines: Sequence[Line],
    seeds: int,
    known: Mapping[str, Path],
    log: Callable[[str], None],
) -> Result:
    """The numbers of a table that the runs ``known`` give as far as they are finished, for the first seeds."""
    rows: dict[tuple[str, str], ResultRow] = {}
    for line in lines:
        found = [(seed, run) for seed in range(seeds) if (run := taken(known, line, seed))]
        if line.measure is not None:
            found = [(seed, folder) for seed, folder in found if measurable(folder, line.measure, log)]
        row = _row(line, dict(found))
        before = rows.get((line.group, line.row))
        rows[line.group, line.row] = row if before is None else _joined(before, row)
    return Result(
        paper_table.name,
        paper_table.title,
        paper_table.where,
        schedule,
        paper_table.unit,
        paper_table.lower_is_better,
        paper_table.ranked,
        tuple(rows.values()),
        paper_table.notes if schedule == "short" else {},
        paper_table.seeds,
    )


def _row(line: Line, found: Mapping[int, Path]) -> ResultRow:
    """A line's numbers from its runs, by seed."""
    by_seed = {seed: load.read(folder).summary for seed, folder in found.items()}
    values = {
        seed: line.read(summary, measure(found[seed], line.measure) if line.measure else {})
        for seed, summary in by_seed.items()
    }
    summaries = by_seed.values()
    chances = [chance for summary in summaries if line.chance and (chance := line.chance(summary)) is not None]
    numbers = {
        column: Number(
            line.paper[i],
            {seed: v for seed, row in values.items() if (v := row[i]) is not None},
            spread,
            max(chances, default=None),
        )
        for i, (column, spread) in enumerate(zip_longest(line.columns, line.stds))
    }
    return ResultRow(
        line.group,
        line.row,
        numbers,
        tuple(command_of(summary.command) for summary in summaries),
        tuple(summary.epochs for summary in summaries if summary.epochs is not None),
        tuple(hardware_of(summary.environment) for summary in summaries),
        line.judged,
        tuple(RunFolder(folder).experiment().runtime.precision for folder in found.values()),
        tuple(_forgotten(summary) for summary in summaries) if line.row.startswith((PRINTED, LOCKGATE)) else (),
    )


def _forgotten(summary: Summary) -> float:
    """By how much accuracy with the task given has fallen since tasks were learnt: of a single stage, not at all."""
    return summary.task_incremental.forgetting or 0.0


def _joined(a: ResultRow, b: ResultRow) -> ResultRow:
    """Two lines of one row: other columns of the same method."""
    return ResultRow(
        a.group,
        a.name,
        {**a.numbers, **b.numbers},
        (*a.commands, *b.commands),
        (*a.epochs, *b.epochs),
        (*a.hardware, *b.hardware),
        a.judged,
        (*a.precisions, *b.precisions),
        (*a.forgetting, *b.forgetting),
    )


def command_of(command: str | None) -> str:
    """The command that made a run, in today's flags, without the folder it was made in."""
    words = iter(shlex.split(command or "not known"))
    kept = []
    for word in words:
        if word == "--out":
            next(words, None)
        elif not word.startswith("--out="):
            kept.append(word)
    return shlex.join(upgraded_command(kept))


def hardware_of(e: Mapping[str, str]) -> str:
    """What a run was made on, by its environment."""
    gpu = e.get("cuda") if str(e.get("device", "cuda")).startswith("cuda") else None  # there may be one not used
    device = gpu if gpu not in (None, "None") else e.get("cpu", "unknown processor")
    commit = e.get("commit") if e.get("commit") not in (None, "None") else None
    version = f"lockgate {e.get('lockgate', '?')}" + (f"{COMMIT}{commit}" if commit else "")
    return f"{device}, {e.get('threads', '?')} thread(s), torch {e.get('torch', '?')}, {version}"


def write(
    paper_table: PaperTable, result: Result, lines: Sequence[Line], known: Mapping[str, Path], root: Path
) -> list[Path]:
    """Markdown, CSV, SVG figures and an HTML page in ``root``; returns what was written, the page first."""
    runs = _first_runs(lines, known)
    if paper_table.figure == "gates":  # a run that could not be measured has nothing to show
        runs = {group: run for group, run in runs.items() if (run / "gates.json").is_file()}
    figures = figures_of(paper_table.figure, result, runs)
    stem = stem_of(paper_table.name, result.schedule)
    files = {f"{stem}.html": page(result, figures, pictures_of(paper_table.figure, runs))}
    files[f"{stem}.md"], files[f"{stem}.csv"] = markdown(result), csv_text(result)
    for group, drawn in figures.items():
        files |= {f"{stem}-{group}.svg": alone(figure) for figure in drawn}
    for name, text in files.items():
        write_atomically(root / name, text)
    return [root / name for name in files]


def stem_of(name: str, schedule: str) -> str:
    """Where results go: those of the paper's schedule beside the short one's, not over them."""
    return name if schedule == "short" else f"{name}-{schedule}"


def _first_runs(lines: Sequence[Line], known: Mapping[str, Path]) -> dict[str, Path]:
    """The first finished run of each group, for figures that look at one."""
    found: dict[str, Path] = {}
    for line in lines:
        if run := taken(known, line, line.experiment.seed):
            found.setdefault(line.group, run)
    return found
