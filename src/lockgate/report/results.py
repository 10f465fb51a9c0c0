"""Numbers of an exhibit, ours beside the paper's, and what they amount to."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from lockgate.report import words

AVERAGE = "avg"
"""The column that rows are judged by, where a table has it."""
CLOSE = 0.01
"""Accuracies within a point of the paper's, or above it, reproduce it."""
CLOSE_RATIO = 1.2
"""Costs within a fifth of the paper's, or below it, do."""


@dataclass(frozen=True)
class Number:
    """One cell: what the paper prints, and what our runs gave, by seed."""

    paper: float | None
    ours: Mapping[int, float]

    @property
    def mean(self) -> float | None:
        """Mean over seeds."""
        return statistics.fmean(self.ours.values()) if self.ours else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over seeds, where there are several."""
        return statistics.stdev(self.ours.values()) if len(self.ours) > 1 else None


@dataclass(frozen=True)
class ResultRow:
    """A row of an exhibit: numbers by column, and how they were made."""

    group: str
    name: str
    numbers: Mapping[str, Number]
    commands: tuple[str, ...]
    epochs: tuple[int, ...]
    hardware: tuple[str, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Every seed that any of its numbers has."""
        return tuple(sorted({seed for number in self.numbers.values() for seed in number.ours}))

    @property
    def run(self) -> bool:
        """Whether any of it was run."""
        return bool(self.seeds)


@dataclass(frozen=True)
class Result:
    """An exhibit with its numbers."""

    name: str
    title: str
    where: str
    schedule: str
    unit: str
    lower_is_better: bool
    ranked: bool
    rows: tuple[ResultRow, ...]
    notes: Mapping[str, str]
    wanted: int = 1
    """Seeds that the exhibit needs."""

    @property
    def groups(self) -> list[str]:
        """Groups in order."""
        return list(dict.fromkeys(row.group for row in self.rows))

    def of(self, group: str) -> list[ResultRow]:
        """The rows of a group."""
        return [row for row in self.rows if row.group == group]

    def columns(self, group: str) -> list[str]:
        """The columns of a group, in order."""
        return list(dict.fromkeys(column for row in self.of(group) for column in row.numbers))

    def close(self, number: Number) -> bool | None:
        """Whether a number is as good as the paper's; None where one of the two is missing."""
        if number.paper is None or number.mean is None:
            return None
        if self.lower_is_better:
            return number.mean <= CLOSE_RATIO * number.paper
        return number.mean >= number.paper - CLOSE

    def verdict(self, group: str) -> str:
        """What a group comes to: *reproduced*, *trend holds*, *differs*, *not run here*, or *beyond the paper*."""
        rows = [row for row in self.of(group) if row.run]
        if not rows:
            return "not run here"
        columns = self.judged(group)
        numbers = [row.numbers[column] for row in rows for column in columns if column in row.numbers]
        judged = [close for number in numbers if (close := self.close(number)) is not None]
        partly = self._partly(group)
        if not judged:
            return f"beyond the paper{partly}"
        if all(judged):
            return f"reproduced{partly}"
        if self.ranked and (order := self.order(group)) is not None:
            right, pairs = order
            if right == pairs:
                return f"trend holds{partly}: {sum(judged)} of {len(judged)} numbers within reach, all rows in order"
        why = "; ".join(self.notes[row.name] for row in rows if row.name in self.notes)
        return f"differs{partly}: {why or 'schedule is short; not looked into'}"

    def judged(self, group: str) -> list[str]:
        """The columns that count: the average where there is one, else all."""
        columns = self.columns(group)
        return [AVERAGE] if AVERAGE in columns else columns

    def _partly(self, group: str) -> str:
        """What is missing: rows, numbers of rows that were run, or seeds."""
        rows = self.of(group)
        left, fewest = sum(not row.run for row in rows), min(len(row.seeds) for row in rows if row.run)
        holes = sum(number.mean is None for row in rows if row.run for number in row.numbers.values())
        missing = [f"{words.plural(left, 'row')} not run"] if left else []
        missing += [f"{words.plural(holes, 'number')} of others missing"] if holes else []
        missing += [f"{fewest} of {words.plural(self.wanted, 'seed')}"] if fewest < self.wanted else []
        return f" ({', '.join(missing)})" if missing else ""

    def order(self, group: str) -> tuple[int, int] | None:
        """Of the pairs of rows that the paper tells apart by more than a point, how many are in its order here."""
        column = self.judged(group)[-1]
        known = [
            (number.paper, number.mean)
            for row in self.of(group)
            if (number := row.numbers.get(column)) and number.paper is not None and number.mean is not None
        ]
        apart = [(a, b) for a, b in combinations(known, 2) if abs(a[0] - b[0]) > CLOSE]
        return (sum((a[0] > b[0]) == (a[1] > b[1]) for a, b in apart), len(apart)) if apart else None


def ours(number: Number) -> str:
    """Our number, with its deviation over seeds."""
    if number.mean is None:
        return "not run"
    digits = 4 if number.mean < 2 else 3
    spread = "" if number.deviation is None else f" ± {number.deviation:.{digits}f}"
    return f"{number.mean:.{digits}f}{spread}"


def printed(number: Number) -> str:
    """The paper's number."""
    if number.paper is None:
        return words.ABSENT
    return f"{number.paper:.3f}" if round(number.paper, 3) == number.paper else f"{number.paper:.4f}"
