"""``lockgate reproduce``: run what an exhibit lacks, then write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockgate.config import Precision
from lockgate.engine.folder import write_atomically
from lockgate.recipes import EXHIBITS
from lockgate.recipes.exhibit import Exhibit, Line, Schedule
from lockgate.report.tables import reproduction
from lockgate.sweep import local, rays
from lockgate.sweep.keep import keep
from lockgate.sweep.measure import measurable
from lockgate.sweep.plan import Job, chosen, held, jobs, taken
from lockgate.sweep.time import estimate, in_words
from lockgate.sweep.write import gather, stem_of, write

MARKDOWN = "REPRODUCTION"


@dataclass(frozen=True)
class Plan:
    """What was asked for."""

    exhibits: tuple[Exhibit, ...]
    schedule: Schedule
    seeds: int | None
    """None: as many as each exhibit needs."""
    root: Path
    only: tuple[str, ...] = ()
    """Groups and rows to run, all if none are named. What is written holds all that is finished."""
    results: Path | None = None
    """Where results of finished runs are kept apart from the runs, and found again."""
    precision: Precision = "32-true"
    """Of new runs."""

    @property
    def places(self) -> tuple[Path, ...]:
        """Where finished runs are looked for; new ones are made in the first."""
        return (self.root,) if self.results is None else (self.root, self.results)

    def seeds_of(self, exhibit: Exhibit) -> int:
        """How many seeds to run for ``exhibit``."""
        return exhibit.seeds if self.seeds is None else self.seeds

    def jobs(self) -> list[Job]:
        """Every run that is needed, each once."""
        wanted: dict[Path, Job] = {}
        for exhibit, lines in chosen(self.exhibits, self.schedule, self.only):
            for job in jobs(lines, self.schedule, self.seeds_of(exhibit), *self.places, precision=self.precision):
                wanted.setdefault(job.folder, job)
        return list(wanted.values())


def exhibits(name: str) -> tuple[Exhibit, ...]:
    """The exhibit called ``name``, or `all` of them."""
    return tuple(EXHIBITS[n] for n in EXHIBITS) if name == "all" else (EXHIBITS[name],)


def run_missing(plan: Plan, at_once: int, ray: str | None, say: Callable[[str], None]) -> list[Job]:
    """Run what is not finished; returns what failed."""
    missing = say_missing(plan, at_once, say)
    if not missing:
        return []
    if ray is not None:
        return rays.carry_out(missing, ray, at_once, say)
    return local.carry_out(missing, at_once, say)


def say_missing(plan: Plan, at_once: int, say: Callable[[str], None]) -> list[Job]:
    """What is not finished, and about how long it would take."""
    every = plan.jobs()
    missing = [job for job in every if not job.finished]
    say(f"{len(every)} runs wanted, {len(every) - len(missing)} finished, {len(missing)} to do")
    if missing:
        say(f"about {in_words(estimate(missing) / at_once)} on CPUs like ours, {at_once} at a time")
    return missing


def write_all(plan: Plan, say: Callable[[str], None]) -> list[Path]:
    """Write every exhibit of the plan from what is finished; with all exhibits also REPRODUCTION.md. Pages first."""
    written, results, known = list[Path](), [], held(*plan.places)
    for exhibit in plan.exhibits:
        lines = exhibit.lines(plan.schedule)
        result = gather(exhibit, plan.schedule, lines, _most(plan, exhibit), known, say)
        written += write(exhibit, result, lines, known, plan.root)
        results.append(result)
        if plan.results is not None:
            _keep(lines, _most(plan, exhibit), known, plan, say)
    if len(plan.exhibits) == len(EXHIBITS):
        written.append(plan.root / f"{stem_of(MARKDOWN, plan.schedule)}.md")
        kept = None if plan.results is None else plan.results.name
        write_atomically(written[-1], reproduction(results, plan.schedule, kept))
    return written


def _keep(lines: Sequence[Line], seeds: int, known: Mapping[str, Path], plan: Plan, say: Callable[[str], None]) -> None:
    """Keep what the runs behind ``lines`` came to, where they are not kept already; measured for other exhibits too."""
    assert plan.results is not None
    runs = {taken(known, line, seed) for line in lines for seed in range(seeds)}
    new = {run for run in runs if run is not None and run.parent != plan.results}
    for line in (line for name in EXHIBITS for line in EXHIBITS[name].lines(plan.schedule)):
        if line.measure is not None:
            for run in new & {taken(known, line, seed) for seed in range(seeds)}:
                measurable(run, line.measure, say)
    for run in sorted(new):
        keep(run, plan.results)


def _most(plan: Plan, exhibit: Exhibit) -> int:
    """Seeds to look for: finished ones count even if fewer were asked for now."""
    return max(plan.seeds_of(exhibit), 5)


def pages(written: Sequence[Path]) -> list[Path]:
    """What a person wants to open."""
    return [path for path in written if path.suffix == ".html" or path.name.startswith(MARKDOWN)]
