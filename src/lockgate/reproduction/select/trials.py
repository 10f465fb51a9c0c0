"""Which runs a selection makes, and what each trial came to.

A trial is one choice of settings; it is run on every data set, once for each seed that is kept for choosing, 100 and
up, each with a class order of its own. Runs are evaluated on held-out images: test images are not read.
"""

from __future__ import annotations

import functools
import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lockgate.app.experiment_file import over_preset
from lockgate.config import Experiment, leaves, merge, nested
from lockgate.errors import ConfigError
from lockgate.methods import METHODS
from lockgate.reproduction.paper_table import Schedule
from lockgate.reproduction.plan import Job, finished, folder_name, held, key
from lockgate.reproduction.select.space import Space, draw
from lockgate.runs.build import experiment_from

FIRST_SEED = 100
"""Of the seeds kept for choosing; results are reported on 0 and up."""

Goal = Literal["class", "task", "domain"]


@dataclass(frozen=True)
class Selection:
    """What was asked for."""

    method: str
    """The method whose settings are chosen."""
    datasets: tuple[str, ...]
    given: Mapping[str, Any]
    """What was set on the command line, as nested plain values: so in all trials, whatever the space says."""
    schedule: Schedule
    """The preset that trials vary, without what an earlier selection chose for it."""
    space: Space
    trials: int
    seeds: int
    goal: Goal
    out: Path
    search_seed: int = 0
    """Of the random search."""

    @property
    def runs(self) -> Path:
        """Where runs are."""
        return self.out / "runs"

    @functools.cached_property
    def fixed(self) -> dict[str, Any]:
        """What the space would vary, if it had not been set."""
        varied = {name for trial in range(1, 1 + MANY) for name in draw(self.space, self.search_seed, trial)}
        return {name: value for name, value in leaves(self.given) if name in varied}

    @functools.cached_property
    def drawn(self) -> list[dict[str, Any]]:
        """What each trial sets: the first nothing, it is the preset."""
        every = [{}, *(draw(self.space, self.search_seed, trial) for trial in range(1, self.trials))]
        given = dict(leaves(self.given))
        return [{name: value for name, value in values.items() if name not in given} for values in every]

    @functools.cached_property
    def jobs(self) -> list[list[Job]]:
        """For each trial, a run for each data set and seed; those that are there already are found by what they are."""
        known = held(self.runs)
        made = []
        for trial in range(self.trials):
            experiments = [self._run(trial, dataset, seed) for dataset in self.datasets for seed in self.seeds_used]
            folders = [known.get(key(e), self.runs / folder_name(e)) for e in experiments]
            made.append([Job(e, f, self.schedule) for e, f in zip(experiments, folders, strict=True)])
        return made

    @property
    def seeds_used(self) -> range:
        """Seeds of the runs, and of their class orders."""
        return range(FIRST_SEED, FIRST_SEED + self.seeds)

    def settings(self, trial: int) -> dict[str, Any]:
        """Every setting that some trial draws, as ``trial`` has it; but those that a preset has by data set."""
        names = {name for values in self.drawn for name in values}
        first, *others = (dict(leaves(job.experiment.to_dict())) for job in self.jobs[trial])
        return {name: first[name] for name in sorted(names) if all(other[name] == first[name] for other in others)}

    def experiment(self, trial: int, dataset: str, **over: Any) -> Experiment:
        """What ``trial`` is on a data set; as it is to be reported, on the first seed, consecutive classes, test
        images, unless ``over`` says otherwise."""
        named = {"preset": self.schedule, "method": self.method, "dataset": dataset, **over}
        values = merge(merge(self.given, nested(self.drawn[trial])), named)
        return experiment_from(over_preset(values, chosen=False))

    def _run(self, trial: int, dataset: str, seed: int) -> Experiment:
        scenario = {"class_order": "random", "order_seed": seed, "evaluate": "held_out"}
        try:
            return self.experiment(trial, dataset, seed=seed, scenario=scenario)
        except ConfigError as error:
            where = f"(trial {trial}, which sets {self.drawn[trial]})" if self.drawn[trial] else ""
            raise ConfigError([f"{problem} {where}".strip() for problem in error.problems]) from error


MANY = 50
"""Draws that show every name of a space: its choices may have names of their own."""


def require_possible(selection: Selection) -> None:
    """Raise if the method can have no score of the kind that is to be the goal, or the data sets no common recipe."""
    bases = [selection.experiment(0, dataset) for dataset in selection.datasets]
    if len(set(selection.datasets)) < len(bases):
        raise ConfigError([f"'datasets' must name each data set once. Got {', '.join(selection.datasets)} instead."])
    if len({base.backbone for base in bases}) > 1:
        each = ", ".join(f"{base.dataset} ({base.backbone})" for base in bases)
        raise ConfigError(
            [f"'datasets' must have one network: settings are chosen for it. Got {each}; use --backbone."]
        )
    if selection.goal == "domain" and bases[0].scenario.kind == "classes":
        raise ConfigError(["'goal' can be domain where tasks share classes: --scenario.kind permuted or rotated."])
    if selection.goal != "task" and not METHODS[selection.method].class_incremental:
        raise ConfigError([f"{selection.method!r} needs the task to answer: use --goal task."])


@dataclass(frozen=True)
class Outcome:
    """What a trial came to."""

    trial: int
    settings: Mapping[str, Any]
    scores: Mapping[str, Mapping[int, float | None]]
    """By data set and seed; None: the run failed."""
    others: Mapping[str, float | None]
    """The other kinds of accuracy, means over data sets and seeds."""
    seconds: float
    runs: tuple[str, ...]

    @property
    def by_dataset(self) -> dict[str, float | None]:
        """The mean over the seeds of each data set; None: one failed."""
        return {dataset: _mean([*seeds.values()]) for dataset, seeds in self.scores.items()}

    @property
    def mean(self) -> float | None:
        """What trials are compared by, the mean over data sets; None: a run failed, and with it the trial."""
        return _mean([*self.by_dataset.values()])

    def to_dict(self) -> dict[str, Any]:
        """A line of the file of trials."""
        return {
            "trial": self.trial,
            "score": self.mean,
            "scores": {name: {str(seed): score for seed, score in some.items()} for name, some in self.scores.items()},
            "settings": dict(self.settings),
            "others": dict(self.others),
            "seconds": round(self.seconds, 1),
            "runs": list(self.runs),
        }


def _mean(values: list[float | None]) -> float | None:
    whole = [value for value in values if value is not None]
    return statistics.fmean(whole) if whole and len(whole) == len(values) else None


KINDS: Mapping[Goal, str] = {
    "class": "class_incremental",
    "task": "task_incremental",
    "domain": "domain_incremental",
}


def outcome(selection: Selection, trial: int) -> Outcome:
    """What ``trial`` came to, from the summaries of its runs."""
    jobs = selection.jobs[trial]
    summaries = [
        json.loads((j.folder / "summary.json").read_text(encoding="utf-8")) if finished(j.folder) else {} for j in jobs
    ]
    scores: dict[str, dict[int, float | None]] = {dataset: {} for dataset in selection.datasets}
    for job, summary in zip(jobs, summaries, strict=True):
        scores[job.experiment.dataset][job.experiment.seed] = _average(summary, selection.goal)
    others: dict[str, float | None] = {}
    for goal, name in KINDS.items():
        found = [value for summary in summaries if (value := _average(summary, goal)) is not None]
        others |= {name: statistics.fmean(found)} if found and goal != selection.goal else {}
    seconds = sum(summary.get("seconds", 0.0) for summary in summaries)
    runs = tuple(str(job.folder.relative_to(selection.out)) for job in jobs)
    return Outcome(trial, selection.settings(trial), scores, others, seconds, runs)


def _average(summary: Mapping[str, Any], goal: Goal) -> float | None:
    """Final average accuracy over all tasks."""
    found = summary.get(KINDS[goal])
    return None if found is None else float(found["average"])
