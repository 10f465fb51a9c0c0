"""The small table of the README: methods on digits, MNIST and Fashion-MNIST, with and without the task, from results.

It has the columns in which ours was run, so that there is something to compare, and the rows of which any of them was
run; all else is in REPRODUCTION.md. It stands between two marks, and whatever stands there is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lockgate.errors import LockgateError
from lockgate.report.formatting import ABSENT
from lockgate.reproduction.results import AVERAGE, Number, Result
from lockgate.reproduction.rows import LOCKGATE
from lockgate.reproduction.tables_and_figures.digits import DIGITS
from lockgate.reproduction.tables_and_figures.every_method import WITH, WITHOUT
from lockgate.reproduction.tables_and_figures.fashion import FASHION
from lockgate.runs.directory import write_atomically

BEGIN, END = "<!-- results -->", "<!-- /results -->"
COLUMNS = {
    "digits, task given": ("digits", DIGITS.given, WITH[0]),
    f"digits, not given, C = {DIGITS.stored}": ("digits", DIGITS.not_given, WITHOUT[0]),
    "MNIST, task given": ("task-incremental", "mnist", AVERAGE),
    "MNIST, not given, C = 500": ("episodic", "mnist", "C = 500"),
    "SVHN, not given, C = 500": ("episodic", "svhn", "C = 500"),
    "Fashion-MNIST, task given": ("fashion", FASHION.given, WITH[0]),
    f"Fashion-MNIST, not given, C = {FASHION.stored}": ("fashion", FASHION.not_given, WITHOUT[0]),
}
"""Where the numbers of each column are: table, group, column."""
FIGURE = "![Digits, no task given: mean accuracy on all tasks learnt so far, after each task](docs/over_tasks.svg)"
"""Where anything on the digits was run."""
OURS = ("ours, as printed", "Lockgate")
LAST = (*OURS, "SVM on the stored images")
"""Rows that come after all baselines."""
NOTHING = "No results of the present code are here yet: `lockgate reproduce digits --results results` makes some."


def overview(results: Sequence[Result]) -> str:
    """The table as Markdown; a sentence where nothing of it was run."""
    by_name = {result.name: result for result in results}
    cells: dict[str, dict[str, Number]] = {}
    for title, (table, group, column) in COLUMNS.items():
        for row in by_name[table].of(group):
            if column in row.numbers:
                cells.setdefault(row.name, {})[title] = row.numbers[column]
    own = [row for name, row in cells.items() if name.startswith(OURS)]
    titles = [title for title in COLUMNS if any(_ran(row, title) for row in own)]
    names = [name for name, row in cells.items() if any(_ran(row, title) for title in titles)]
    if not names:
        return NOTHING
    names.sort(key=lambda name: name.startswith(LAST))
    seeds = {title: _seeds(cells.values(), title) for title in titles}
    heads = [f"{title} ({seeds[title]} seeds)" if seeds[title] else title for title in titles]
    lines = [f"| | {' | '.join(heads)} |", f"|---|{'---|' * len(titles)}"]
    for name in names:
        shown = [_cell(cells[name], title, with_seeds=not seeds[title]) for title in titles]
        if name == LOCKGATE:
            shown = [f"**{cell}**" if cell not in ("", ABSENT) else cell for cell in shown]
        lines.append(f"| {f'**{name}**' if name == LOCKGATE else name} | {' | '.join(shown)} |")
    drawn = any(row.run for row in by_name["digits"].rows)
    return "\n".join([*lines, *(["", FIGURE] if drawn else [])])


def _ran(row: Mapping[str, Number], title: str) -> bool:
    return title in row and bool(row[title].ours)


def _seeds(rows: Iterable[Mapping[str, Number]], title: str) -> int:
    """How many seeds every number of a column is of, where all are of as many and of more than one; else 0."""
    counts = {len(row[title].ours) for row in rows if _ran(row, title)}
    return counts.pop() if len(counts) == 1 and counts != {1} else 0


def _cell(row: Mapping[str, Number], title: str, *, with_seeds: bool) -> str:
    """Mean and deviation, and how many seeds they are of; a dash: not run; nothing: a method has no such number."""
    number = row.get(title)
    if number is None:
        return ""
    if number.mean is None:
        return ABSENT
    text = f"{number.mean:.3f}" + (f" ± {number.std:.3f}" if number.std else "")  # none where seeds agree
    return f"{text} ({len(number.ours)})" if with_seeds else text


def fill(page: Path, text: str) -> None:
    """Put ``text`` between the marks of ``page``."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise LockgateError(f"{page} has no place for results. Wanted: a line {BEGIN} and, below it, a line {END}.")
    write_atomically(page, f"{before}{BEGIN}\n{text}\n{END}{after}")
