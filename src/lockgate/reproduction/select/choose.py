"""Run the trials that are missing, take the best, write what was tried and what was chosen."""

from __future__ import annotations

import json
import shlex
import shutil
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from lockgate.config import nested
from lockgate.errors import LockgateError
from lockgate.reproduction.estimate import estimate, in_words
from lockgate.reproduction.plan import Job, command
from lockgate.reproduction.runners import local
from lockgate.reproduction.runners import ray as on_ray
from lockgate.reproduction.select.trials import KINDS, Outcome, Selection, outcome
from lockgate.runs.directory import write_atomically
from lockgate.runs.summary import environment

Log = Callable[[str], None]


def run_trials(selection: Selection, at_once: int, ray: str | None, log: Log) -> list[Job]:
    """Run what is not finished; returns what failed."""
    every = list({job.folder: job for jobs in selection.jobs for job in jobs}.values())
    missing = [job for job in every if not job.finished]
    log(
        f"{selection.method}: {selection.trials} trials on {selection.seeds} seeds of {', '.join(selection.datasets)}: "
        f"{len(every)} runs, "
        f"{len(every) - len(missing)} finished, {len(missing)} to do"
    )
    if not missing:
        return []
    log(f"about {in_words(estimate(missing) / at_once)} on CPUs like ours, {at_once} at a time")
    if ray is not None:
        return on_ray.run_jobs(missing, ray, at_once, log)
    return local.run_jobs(missing, at_once, log)


def best_of(outcomes: Sequence[Outcome]) -> Outcome:
    """The trial with the highest score; of equal ones the first, so that the preset stays unless something beats it."""
    whole = [one for one in outcomes if one.mean is not None]
    if not whole:
        raise LockgateError("No trial has finished all its runs, so nothing can be chosen; look into their logs.")
    return max(whole, key=lambda one: (one.mean, -one.trial))


def write(selection: Selection, typed: str, name: str, log: Log) -> tuple[Path, Path]:
    """Write NAME-trials.jsonl and NAME.yaml to the folder of the selection; returns the second first."""
    outcomes = [outcome(selection, trial) for trial in range(selection.trials)]
    tried, chosen = selection.out / f"{name}-trials.jsonl", selection.out / f"{name}.yaml"
    write_atomically(tried, "".join(json.dumps(one.to_dict()) + "\n" for one in outcomes))
    best = best_of(outcomes)
    text = yaml.safe_dump(_choice(selection, outcomes, best, typed), sort_keys=False, width=120)
    write_atomically(chosen, f"# Chosen on held-out images by:\n# {typed}\n{text}")
    preset = f"; the preset {outcomes[0].mean:.4f}" if outcomes[0].mean is not None else ""
    log(f"{name}: trial {best.trial} has {best.mean:.4f}{preset}: {dict(best.settings)}")
    return chosen, tried


def drop_models(selection: Selection) -> None:
    """Remove the checkpoints of finished runs: a selection needs only what they came to."""
    for job in (job for jobs in selection.jobs for job in jobs):
        if job.finished and (job.folder / "checkpoints").is_dir():
            shutil.rmtree(job.folder / "checkpoints")


def _choice(selection: Selection, outcomes: Sequence[Outcome], best: Outcome, typed: str) -> dict[str, Any]:
    bases, made_in = [selection.experiment(0, dataset) for dataset in selection.datasets], environment()
    runs = {base.dataset: command(selection.experiment(best.trial, base.dataset), selection.schedule) for base in bases}
    scores = [score for seeds in best.scores.values() for score in seeds.values() if score is not None]
    return {
        "method": selection.method,
        "settings": nested(best.settings),
        "fixed": nested(selection.fixed),
        "run": {dataset: shlex.join(["lockgate", *words]) for dataset, words in runs.items()},
        "goal": KINDS[selection.goal],
        "score": best.mean,
        "scores": best.by_dataset,
        "std": statistics.stdev(scores) if len(selection.datasets) == 1 and len(scores) > 1 else None,
        "trial": best.trial,
        "score_of_preset": outcomes[0].mean,
        "scores_of_preset": outcomes[0].by_dataset,
        "preset": selection.schedule,
        "budget": {
            "trials": selection.trials,
            "failed": [one.trial for one in outcomes if one.mean is None],
            "seeds": list(selection.seeds_used),
            "class_orders": [f"random, seed {seed}" for seed in selection.seeds_used],
            "datasets": list(selection.datasets),
            "backbone": bases[0].backbone,
            "tasks": bases[0].tasks,
            "epochs": {base.dataset: base.epochs for base in bases},
            "per_class": bases[0].scenario.per_class,
            "held_out": bases[0].scenario.held_out,
            "hours": round(sum(one.seconds for one in outcomes) / 3600, 3),
        },
        "space": dict(selection.space),
        "command": typed,
        "commit": made_in["commit"],
        "lockgate": made_in["lockgate"],
        "torch": str(made_in["torch"]),
        "cpu": made_in["cpu"],
    }
