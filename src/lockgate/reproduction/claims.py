"""The paper's seven claims, each with a verdict of its own: of *ours, as printed*, and beside it of *Lockgate*.

A claim is judged group by group (a data set) by the numbers that its table has. What was not run says nothing, and a
claim of which nothing was run has no verdict.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lockgate.reproduction.results import AVERAGE, CLOSE, DENSE, Result, ResultRow
from lockgate.reproduction.rows import LOCKGATE, PRINTED

SIDES = (PRINTED, LOCKGATE)
ACCURACY = "accuracy"


@dataclass(frozen=True)
class Finding:
    """What the numbers of one group say of a claim."""

    group: str
    holds: bool
    numbers: str
    whole: bool = True
    """Whether all that the claim speaks of in this group was run."""


@dataclass(frozen=True)
class Claim:
    """Something the paper says of its method."""

    text: str
    table: str
    """Where its numbers stand."""
    judge: Callable[[Result, str], Iterator[Finding]]
    """From that table and the name of a row of ours: a finding for each group of which enough was run."""
    spared: tuple[str, ...] = ()
    """Groups of the table that the claim does not speak of."""


def verdict(claim: Claim, tables: Mapping[str, Result], side: str) -> str:
    """Whether a claim holds for a row of ours, where, and by which numbers."""
    found = list(claim.judge(tables[claim.table], side)) if claim.table in tables else []
    if not found:
        return "not run here"
    held = sum(finding.holds for finding in found)
    so_far = "" if all(finding.whole for finding in found) and not _unjudged(claim, tables, found) else " as far as run"
    word = f"**holds{so_far}**" if held == len(found) else "**does not hold**" if not held else "**in part**"
    told = (f"{finding.group} {finding.numbers}{'' if finding.holds else ' (no)'}" for finding in found)
    return f"{word}: {'; '.join(told)}"


def _unjudged(claim: Claim, tables: Mapping[str, Result], found: Sequence[Finding]) -> set[str]:
    """Groups that the claim speaks of and of which too little was run; none where findings are not of groups."""
    groups, judged = set(tables[claim.table].groups), {finding.group for finding in found}
    return groups - judged - set(claim.spared) if groups & judged else set()


def claims_table(results: Sequence[Result]) -> str:
    """All claims as Markdown."""
    tables = {result.name: result for result in results}
    head = "| the paper's claim | ours, as printed | Lockgate |\n|---|---|---|"
    rows = (
        f"| {number}. {claim.text} | {' | '.join(verdict(claim, tables, side) for side in SIDES)} |"
        for number, claim in enumerate(CLAIMS, 1)
    )
    return "\n".join([head, *rows])


def cells_table(results: Sequence[Result]) -> str:
    """How many cells of every table were run, as Markdown; a cell is a number that the paper prints or that we add."""
    lines = ["| table | cells run | of | seeds |", "|---|---|---|---|"]
    for result in results:
        numbers = [number for row in result.rows for number in row.numbers.values()]
        ran = [len(number.ours) for number in numbers if number.ours]
        seeds = "–" if not ran else str(min(ran)) if min(ran) == max(ran) else f"{min(ran)} to {max(ran)}"
        lines.append(f"| {result.where}: {result.title} | {len(ran)} | {len(numbers)} | {seeds} |")
    return "\n".join(lines)


def _row(result: Result, group: str, name: str) -> ResultRow | None:
    """A row by its name, if anything of it was run."""
    return next((row for row in result.of(group) if row.name == name and row.run), None)


def _mean(row: ResultRow | None, column: str) -> float | None:
    number = row.numbers.get(column) if row is not None else None
    return None if number is None else number.mean


def _nothing_forgotten(result: Result, side: str) -> Iterator[Finding]:
    for group in result.groups:
        row = _row(result, group, side)
        if row is not None and row.forgetting:
            lost = statistics.fmean(row.forgetting)
            yield Finding(group, lost <= CLOSE, f"{100 * lost:.1f} points lost")


def _level_with_hat(result: Result, side: str) -> Iterator[Finding]:
    for group in result.groups:
        ours, hat = (_mean(_row(result, group, name), AVERAGE) for name in (side, "HAT"))
        if ours is not None and hat is not None:
            yield Finding(group, ours >= hat - CLOSE, f"{ours:.3f} against {hat:.3f}")


def _regularisers_fall_behind(result: Result, side: str) -> Iterator[Finding]:
    """The distance to LwF and EWC-On grows from one data set to the next, which is harder."""
    for name in ("LwF", "EWC-On"):
        gaps = {}
        for group in result.groups:
            ours, theirs = _mean(_row(result, group, side), AVERAGE), _mean(_row(result, group, name), AVERAGE)
            if ours is not None and theirs is not None:
                gaps[group] = ours - theirs
        if len(gaps) > 1:
            told = ", ".join(f"{100 * gap:+.1f} on {group}" for group, gap in gaps.items())
            grows = all(after > before for before, after in pairwise(gaps.values()))
            yield Finding(name, grows, f"{told} (points)", whole=len(gaps) == len(result.groups))


def _ahead_at_every_size(result: Result, side: str) -> Iterator[Finding]:
    rivals = ("iCaRL-rand", "iCaRL-mean", "A-GEM")
    for group in result.groups:
        leads, whole = [], True
        for column in result.columns(group):
            ours = _mean(_row(result, group, side), column)
            theirs = [mean for name in rivals if (mean := _mean(_row(result, group, name), column)) is not None]
            whole &= ours is not None and len(theirs) == len(rivals)
            if ours is not None and theirs:
                leads.append((ours - max(theirs), column))
        if leads:
            least, column = min(leads)
            told = (
                f"by {100 * least:+.1f} points at least ({column}; {len(leads)} of {len(result.columns(group))} sizes)"
            )
            yield Finding(group, least > 0, told, whole)


def _ahead_of_dgm(result: Result, side: str) -> Iterator[Finding]:
    """On MNIST the paper itself is behind DGMa, so that it counts nowhere."""
    for group in result.groups:
        ours = _mean(_row(result, group, side), ACCURACY)
        theirs = [mean for name in ("DGMw", "DGMa") if (mean := _mean(_row(result, group, name), ACCURACY)) is not None]
        if group != "mnist" and ours is not None and theirs:
            yield Finding(group, ours > max(theirs), f"{ours:.3f} against {max(theirs):.3f}")


def _images_beat_generators(result: Result, side: str) -> Iterator[Finding]:
    """As many bytes of stored images (Em5), or fewer (Em1 to Em4), against generators (Gm1)."""
    prefix = "" if side == PRINTED else f"{LOCKGATE}, "
    for group in result.groups:
        generators = _mean(_row(result, group, f"{prefix}Gm1"), ACCURACY)
        stored = {f"Em{n}": _mean(_row(result, group, f"{prefix}Em{n}"), ACCURACY) for n in range(1, 6)}
        ran = [(mean, name) for name, mean in stored.items() if mean is not None]
        if generators is not None and ran:
            best, name = max(ran)
            yield Finding(group, best > generators, f"{name} {best:.3f}, Gm1 {generators:.3f}")


def _never_dearer_than_dense(result: Result, side: str) -> Iterator[Finding]:
    found: dict[str, list[float]] = {}
    for group in (row.group for row in result.rows if row.name == DENSE):
        dense = _row(result, group, DENSE)
        for how in ("task given", "no task given"):
            row = _row(result, group, f"{side}, {how}")
            found[f"{group}, {how}"] = [
                mine / whole
                for column in result.columns(group)
                if (mine := _mean(row, column)) is not None and (whole := _mean(dense, column))
            ]
    for what, shares in found.items():
        if shares:
            told = f"{max(shares):.2f} of the dense cost at most"
            yield Finding(what, max(shares) <= 1, told, whole=all(found.values()))


CLAIMS = (
    Claim("Nothing is forgotten when the task is given (less than a point)", "task-incremental", _nothing_forgotten),
    Claim("With the task, on par with HAT (within a point) or above", "task-incremental", _level_with_hat),
    Claim(
        "LwF stiffens and EWC forgets as data get harder: their distance grows",
        "task-incremental",
        _regularisers_fall_behind,
    ),
    Claim("Without the task, ahead of iCaRL and A-GEM at every size of the memory", "episodic", _ahead_at_every_size),
    Claim("With generators, ahead of DGM on all but MNIST", "generative", _ahead_of_dgm, spared=("mnist",)),
    Claim("Stored images beat generators of as many bytes", "budget", _images_beat_generators),
    Claim("Inference never costs more than the dense network", "macs", _never_dearer_than_dense),
)
"""In the order of the paper."""
