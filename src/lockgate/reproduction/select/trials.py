"""Which runs a selection makes, and what each trial came to.

A trial is one choice of settings; it is run once for each seed that is kept for choosing, 100 and up, each with a class
order of its own. Runs are evaluated on held-out images: test images are not read.
"""

from __future__ import annotations

import functools
import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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

    base: Mapping[str, Any]
    """The experiment that trials vary, as plain values: the preset's, and what was fixed on the command line."""
    schedule: Schedule
    """The preset that ``base`` comes from."""
    space: Space
    trials: int
    seeds: int
    goal: Goal
    out: Path
    search_seed: int = 0
    """Of the random search."""
    fixed: frozenset[str] = frozenset()
    """Names of settings that stay as ``base`` has them, whatever the space says."""

    @property
    def method(self) -> str:
        """The method whose settings are chosen."""
        return str(self.base["method"])

    @property
    def runs(self) -> Path:
        """Where runs are."""
        return self.out / "runs"

    @functools.cached_property
    def drawn(self) -> list[dict[str, Any]]:
        """What each trial sets: the first nothing, it is the preset."""
        every = [{}, *(draw(self.space, self.search_seed, trial) for trial in range(1, self.trials))]
        return [{name: value for name, value in values.items() if name not in self.fixed} for values in every]

    @functools.cached_property
    def jobs(self) -> list[list[Job]]:
        """For each trial, a run for each seed; those that are there already are found by what they are."""
        known = held(self.runs)
        made = []
        for trial in range(self.trials):
            experiments = [self._experiment(trial, seed) for seed in self.seeds_used]
            folders = [known.get(key(e), self.runs / folder_name(e)) for e in experiments]
            made.append([Job(e, f, self.schedule) for e, f in zip(experiments, folders, strict=True)])
        return made

    @property
    def seeds_used(self) -> range:
        """Seeds of the runs, and of their class orders."""
        return range(FIRST_SEED, FIRST_SEED + self.seeds)

    def settings(self, trial: int) -> dict[str, Any]:
        """Every setting that some trial draws, as ``trial`` has it."""
        names = {name for values in self.drawn for name in values}
        have = dict(leaves(self.jobs[trial][0].experiment.to_dict()))
        return {name: have[name] for name in sorted(names)}

    def chosen(self, trial: int) -> Experiment:
        """The experiment to report: the trial's settings on the first seed, consecutive classes, test images."""
        return experiment_from(merge(self.base, nested(self.drawn[trial])))

    def _experiment(self, trial: int, seed: int) -> Experiment:
        scenario = {"class_order": "random", "order_seed": seed, "evaluate": "held_out"}
        values = merge(merge(self.base, nested(self.drawn[trial])), {"seed": seed, "scenario": scenario})
        try:
            return experiment_from(values)
        except ConfigError as error:
            where = f"(trial {trial}, which sets {self.drawn[trial]})"
            raise ConfigError([f"{problem} {where}" for problem in error.problems]) from error


def require_goal(selection: Selection) -> None:
    """Raise if the method can have no score of the kind that is to be the goal."""
    shared = selection.base["scenario"]["kind"] != "classes"
    if selection.goal == "domain" and not shared:
        raise ConfigError(["'goal' can be domain where tasks share classes: --scenario.kind permuted or rotated."])
    if selection.goal != "task" and not METHODS[selection.method].class_incremental:
        raise ConfigError([f"{selection.method!r} needs the task to answer: use --goal task."])


@dataclass(frozen=True)
class Outcome:
    """What a trial came to."""

    trial: int
    settings: Mapping[str, Any]
    scores: Mapping[int, float | None]
    """By seed; None: the run failed."""
    others: Mapping[str, float | None]
    """The other kinds of accuracy, means over the seeds."""
    seconds: float
    runs: tuple[str, ...]

    @property
    def mean(self) -> float | None:
        """What trials are compared by; None: a run failed, and with it the trial."""
        values = [score for score in self.scores.values() if score is not None]
        return statistics.fmean(values) if len(values) == len(self.scores) else None

    def to_dict(self) -> dict[str, Any]:
        """A line of the file of trials."""
        return {
            "trial": self.trial,
            "score": self.mean,
            "scores": {str(seed): score for seed, score in self.scores.items()},
            "settings": dict(self.settings),
            "others": dict(self.others),
            "seconds": round(self.seconds, 1),
            "runs": list(self.runs),
        }


KINDS: Mapping[Goal, str] = {
    "class": "class_incremental",
    "task": "task_incremental",
    "domain": "domain_incremental",
}


def outcome(selection: Selection, trial: int) -> Outcome:
    """What ``trial`` came to, from the summaries of its runs."""
    jobs = selection.jobs[trial]
    summaries = [json.loads((j.folder / "summary.json").read_text()) if finished(j.folder) else {} for j in jobs]
    scores = {
        job.experiment.seed: _average(summary, selection.goal) for job, summary in zip(jobs, summaries, strict=True)
    }
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
