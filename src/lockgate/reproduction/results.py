"""Numbers of a table, ours beside the paper's, and what they amount to."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from lockgate.report import formatting

AVERAGE = "avg"
"""The column that rows are judged by, where a table has it."""
CLOSE = 0.01
"""Accuracies within a point of the paper's reproduce it."""
CLOSE_RATIO = 1.2
"""Costs within a fifth of the paper's, or below it, do."""
OURS = "ours"
"""How names of our own rows begin: they are no baselines of each other."""
DENSE = "backbone"
"""The row of a table of costs that holds those of the dense network."""
NEAR_CHANCE = 0.05
"""A baseline that is not more than this above guessing has learnt nothing: it can neither agree nor lose."""
NOT_JUDGED = ("MiB",)
"""Columns that say what a number was bought with."""

COMMIT = " at "
"""What stands before the commit in a row's hardware."""
FULL = "32-true"
"""The precision that needs no mention."""


@dataclass(frozen=True)
class Number:
    """One cell: what the paper prints, and what our runs gave, by seed."""

    paper: float | None
    ours: Mapping[int, float]
    paper_deviation: float | None = None
    chance: float | None = None
    """The accuracy of guessing, where it is known."""

    @property
    def near_chance(self) -> bool:
        """Whether our runs did hardly better than guessing."""
        return self.mean is not None and self.chance is not None and self.mean <= self.chance + NEAR_CHANCE

    @property
    def mean(self) -> float | None:
        """Mean over seeds."""
        return statistics.fmean(self.ours.values()) if self.ours else None

    @property
    def std(self) -> float | None:
        """Standard deviation over seeds, where there are several."""
        return statistics.stdev(self.ours.values()) if len(self.ours) > 1 else None


@dataclass(frozen=True)
class ResultRow:
    """A row of a table: numbers by column, and how they were made."""

    group: str
    name: str
    numbers: Mapping[str, Number]
    commands: tuple[str, ...]
    epochs: tuple[int, ...]
    hardware: tuple[str, ...]
    judged: bool = True
    """Whether it counts; what only gives the scale does not."""
    precisions: tuple[str, ...] = ()
    """Of its runs."""
    forgetting: tuple[float, ...] = ()
    """Of its runs, of accuracy with the task given, if the row is one of ours."""

    @property
    def ours(self) -> bool:
        """Whether it is the paper's method, of which verdicts are."""
        return self.name.startswith(OURS)

    @property
    def schedule(self) -> tuple[str, ...]:
        """Epochs a task of its runs, and their precisions unless all had the full one."""
        epochs = ", ".join(map(str, sorted(set(self.epochs))))
        precisions = "" if set(self.precisions) == {FULL} else " and ".join(sorted(set(self.precisions)))
        return tuple(filter(None, (epochs, precisions))) or (formatting.ABSENT,)

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
    """A table with its numbers."""

    name: str
    title: str
    where: str
    schedule: str
    unit: str
    lower_is_better: bool
    ranked: bool
    rows: tuple[ResultRow, ...]
    notes: Mapping[str, str]
    """Why a group differs from the paper, by group; under "", why any does."""
    wanted: int = 1
    """Seeds that the table needs."""

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

    def close(self, row: ResultRow, column: str) -> bool | None:
        """Whether a number of ``row`` is the paper's again; None where one of the two is missing.

        An accuracy must not be better either, ours as little as a baseline's: it would be another method than the
        paper's. A cost may be lower, but never above that of the dense network, as the paper claims.
        """
        number = row.numbers[column]
        if number.paper is None or number.mean is None:
            return None
        if self.lower_is_better:
            return number.mean <= min(CLOSE_RATIO * number.paper, self._dense(row.group, column))
        return abs(number.mean - number.paper) <= CLOSE

    def _dense(self, group: str, column: str) -> float:
        """The cost of the dense network in a group; infinite where it has no such row."""
        costs = [row.numbers[column].mean for row in self.of(group) if row.name == DENSE and column in row.numbers]
        return next((cost for cost in costs if cost is not None), math.inf)

    def verdict(self, group: str) -> str:
        """What a group comes to: *reproduced*, *trend holds*, *differs*, *not run here*, or *beyond the paper*."""
        if refused := self._undecided(group):
            return refused
        rows = [row for row in self.of(group) if row.run and row.judged]
        numbers = [(row, column) for row in rows for column in self.judged(group) if column in row.numbers]
        deciding = [(row, column) for row, column in numbers if row.ours or not row.numbers[column].near_chance]
        judged = [close for row, column in deciding if (close := self.close(row, column)) is not None]
        missing = ", ".join(self._missing(group))
        partly = f" ({missing})" if missing else ""
        if not judged:
            printed = any(n.paper is not None for row in self.rows for n in row.numbers.values())
            return f"beyond the paper{partly}" if printed else f"shown{partly}; the paper prints no numbers"
        right, pairs = self.order(group) if self.ranked else (0, 0)
        counted = f"{sum(judged)} of {formatting.plural(len(judged), 'number')} within reach"
        counted += f", {right} of {formatting.plural(pairs, 'pair')} in order" if pairs else ""
        if left_out := len({row.name for row, column in numbers if (row, column) not in deciding}):
            counted += f"; {formatting.plural(left_out, 'baseline')} near chance "
            counted += "decides nothing" if left_out == 1 else "decide nothing"
        if all(judged) and right == pairs:
            return f"reproduced{' as far as run' if missing else ''}{partly}: {counted}"
        if pairs and right == pairs:
            return f"trend holds{partly}: {counted}"
        return f"differs{partly}: {counted}; {self.notes.get(group, self.notes.get('', 'not looked into'))}"

    def _undecided(self, group: str) -> str | None:
        """What is said where there can be no verdict: nothing was run, the paper has no such thing, or ours is missing.

        Baselines alone say nothing about the paper's method.
        """
        rows = self.of(group)
        if not any(row.run for row in rows):
            return "not run here"
        counting = [row for row in rows if row.judged]
        if not any(row.run for row in counting):
            printed = any(number.paper is not None for row in rows for number in row.numbers.values())
            return "not run here" if printed or counting else "beyond the paper"
        ours = [row for row in counting if row.ours]
        return "not run here: ours is missing" if ours and not any(row.run for row in ours) else None

    def remarks(self, group: str) -> list[str]:
        """What is to be said under a table: by how much rows forget that may."""
        return [
            f"{row.name.capitalize()} forgets {100 * statistics.fmean(row.forgetting):.1f} points "
            f"(mean over {formatting.plural(len(row.forgetting), 'run')}, the task given)."
            for row in self.of(group)
            if row.ours and row.forgetting
        ]

    def judged(self, group: str) -> list[str]:
        """The columns that count: the average where there is one, else all but costs beside them."""
        columns = [column for column in self.columns(group) if column not in NOT_JUDGED]
        return [AVERAGE] if AVERAGE in columns else columns

    def _missing(self, group: str) -> list[str]:
        """What is missing: rows, numbers of rows that were run, or seeds."""
        rows = [row for row in self.of(group) if row.judged]
        left, fewest = sum(not row.run for row in rows), min(len(row.seeds) for row in rows if row.run)
        holes = sum(number.mean is None for row in rows if row.run for number in row.numbers.values())
        missing = [f"{formatting.plural(left, 'row')} not run"] if left else []
        missing += [f"{formatting.plural(holes, 'number')} of others missing"] if holes else []
        missing += [f"{fewest} of {formatting.plural(self.wanted, 'seed')}"] if fewest < self.wanted else []
        return missing

    def order(self, group: str) -> tuple[int, int]:
        """Of the pairs of baselines that the paper tells apart by more than a point, how many stand in its order here.

        By more than a point too: less than that seeds can do. Baselines near chance are in no pair.
        """
        right = pairs = 0
        for column in self.judged(group):
            known = [
                (row, number.paper, number.mean)
                for row in self.of(group)
                if row.judged
                and (number := row.numbers.get(column))
                and number.paper is not None
                and number.mean is not None
                and (row.ours or not number.near_chance)
            ]
            for (a, paper_a, mean_a), (b, paper_b, mean_b) in combinations(known, 2):
                if abs(paper_a - paper_b) > CLOSE and not (a.ours and b.ours):
                    pairs += 1
                    right += (paper_a > paper_b) == (mean_a > mean_b) and abs(mean_a - mean_b) > CLOSE
        return right, pairs
