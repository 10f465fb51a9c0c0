"""``lockgate reproduce``: run what a table lacks, then write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockgate.config import Precision
from lockgate.report.formatting import plural
from lockgate.reproduction import TABLES
from lockgate.reproduction.archive import keep
from lockgate.reproduction.estimate import estimate, in_words
from lockgate.reproduction.figures import alone
from lockgate.reproduction.markdown import reproduction
from lockgate.reproduction.measure import measurable
from lockgate.reproduction.over_tasks import FILE, over_tasks
from lockgate.reproduction.overview import fill, overview
from lockgate.reproduction.paper_table import Line, PaperTable, Schedule
from lockgate.reproduction.plan import Job, chosen, held, jobs, key, taken
from lockgate.reproduction.runners import local
from lockgate.reproduction.runners import ray as on_ray
from lockgate.reproduction.write import gather, stem_of, write
from lockgate.runs.directory import write_atomically

MARKDOWN = "REPRODUCTION"


@dataclass(frozen=True)
class Plan:
    """What was asked for."""

    paper_tables: tuple[PaperTable, ...]
    schedule: Schedule
    seeds: int | None
    """None: as many as each table needs."""
    root: Path
    only: tuple[str, ...] = ()
    """Groups, rows and columns to run, all if none are named. What is written holds all that is finished."""
    results: Path | None = None
    """Where results of finished runs are kept apart from the runs, and found again."""
    precision: Precision = "32-true"
    """Of new runs."""
    readme: Path | None = None
    """A page to put the overview of all tables into."""

    @property
    def places(self) -> tuple[Path, ...]:
        """Where finished runs are looked for; new ones are made in the first."""
        return (self.root,) if self.results is None else (self.root, self.results)

    def seeds_of(self, paper_table: PaperTable) -> int:
        """How many seeds to run for ``table``."""
        return paper_table.seeds if self.seeds is None else self.seeds

    def jobs(self) -> list[Job]:
        """Every run that is needed, each once."""
        wanted: dict[Path, Job] = {}
        for paper_table, lines in chosen(self.paper_tables, self.schedule, self.only):
            for job in jobs(lines, self.schedule, self.seeds_of(paper_table), *self.places, precision=self.precision):
                wanted.setdefault(job.folder, job)
        return list(wanted.values())


def paper_tables(name: str) -> tuple[PaperTable, ...]:
    """The table called ``name``, or `all` of them."""
    return tuple(TABLES[n] for n in TABLES) if name == "all" else (TABLES[name],)


def run_missing(plan: Plan, at_once: int, ray: str | None, log: Callable[[str], None]) -> list[Job]:
    """Run what is not finished; returns what failed."""
    missing = log_missing(plan, at_once, log)
    if not missing:
        return []
    if ray is not None:
        return on_ray.run_jobs(missing, ray, at_once, log)
    return local.run_jobs(missing, at_once, log)


def log_missing(plan: Plan, at_once: int, log: Callable[[str], None]) -> list[Job]:
    """What is not finished, and about how long it would take."""
    every = plan.jobs()
    missing = [job for job in every if not job.finished]
    log(f"{len(every)} runs wanted, {len(every) - len(missing)} finished, {len(missing)} to do")
    older = held(*plan.places, older=True)
    if stale := sum(key(job.experiment) in older for job in missing):
        log(f"{plural(stale, 'result')} of these {'is' if stale == 1 else 'are'} of older code: run again")
    if missing:
        log(f"about {in_words(estimate(missing) / at_once)} on CPUs like ours, {at_once} at a time")
    return missing


def write_all(plan: Plan, log: Callable[[str], None]) -> list[Path]:
    """Write every table of the plan from what is finished; with all tables also REPRODUCTION.md. Pages first."""
    written, results, known = list[Path](), [], held(*plan.places)
    for paper_table in plan.paper_tables:
        lines = paper_table.lines(plan.schedule)
        result = gather(paper_table, plan.schedule, lines, _most(plan, paper_table), known, log)
        written += write(paper_table, result, lines, known, plan.root)
        results.append(result)
        if paper_table.name == "digits" and (drawn := over_tasks(lines, _most(plan, paper_table), known)):
            written.append(plan.root / FILE)
            write_atomically(written[-1], alone(drawn))
        if plan.results is not None:
            _keep(lines, _most(plan, paper_table), known, plan, log)
    if len(plan.paper_tables) == len(TABLES):
        written.append(plan.root / f"{stem_of(MARKDOWN, plan.schedule)}.md")
        kept = None if plan.results is None else plan.results.name
        write_atomically(written[-1], reproduction(results, plan.schedule, kept))
        if plan.readme is not None:
            fill(plan.readme, overview(results))
    return written


def _keep(lines: Sequence[Line], seeds: int, known: Mapping[str, Path], plan: Plan, log: Callable[[str], None]) -> None:
    """Keep what the runs behind ``lines`` came to, where they are not kept already; measured for other tables too."""
    assert plan.results is not None
    runs = {taken(known, line, seed) for line in lines for seed in range(seeds)}
    new = {run for run in runs if run is not None and run.parent != plan.results}
    for line in (line for name in TABLES for line in TABLES[name].lines(plan.schedule)):
        if line.measure is not None:
            for run in new & {taken(known, line, seed) for seed in range(seeds)}:
                measurable(run, line.measure, log)
    for run in sorted(new):
        keep(run, plan.results)


def _most(plan: Plan, paper_table: PaperTable) -> int:
    """Seeds to look for: finished ones count even if fewer were asked for now."""
    return max(plan.seeds_of(paper_table), 5)


def pages(written: Sequence[Path]) -> list[Path]:
    """What a person wants to open."""
    return [path for path in written if path.suffix == ".html" or path.name.startswith(MARKDOWN)]
