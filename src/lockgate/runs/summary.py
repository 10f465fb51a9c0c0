"""``summary.json``: what a finished run comes to. Its keys are documented in docs/walk.md and kept stable."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from lockgate.config import Experiment
from lockgate.evaluation.accuracy import summarise
from lockgate.version import __version__

FORMAT = 1


def make_summary(
    experiment: Experiment,
    task_names: list[list[str]],
    records: list[dict[str, Any]],
    command: str,
    made_in: dict[str, Any],
    method_version: int | None,
) -> dict[str, Any]:
    """Gather a run's records of ended tasks, one at least, into one object; ``made_in`` is its ``environment``.

    ``method_version``: of the code that learnt; None where nobody knows.
    """
    ends = [record for record in records if record["event"] == "task"]
    without_task = [record["class_incremental"] for record in ends]
    class_alone: list[Any] = [record.get("domain_incremental") for record in ends]  # 0.1 had no domains
    return {
        "format": FORMAT,
        "method": experiment.method,
        "method_version": method_version,
        "dataset": experiment.dataset,
        "backbone": experiment.backbone,
        "seed": experiment.seed,
        "tasks": experiment.tasks,
        "epochs": experiment.epochs,
        "scenario": dataclasses.asdict(experiment.scenario),
        "seconds": sum(record["seconds"] for record in ends),
        "task_names": task_names,
        "task_incremental": summarise([record["task_incremental"] for record in ends]),
        "class_incremental": None if None in without_task else summarise(without_task),
        "domain_incremental": None if None in class_alone else summarise(class_alone),
        "inference": _inference(ends),
        "task_found": None if None in without_task else [record["task_found"] for record in ends],
        "svm": ends[-1].get("svm"),  # earlier versions did not ask
        "unlearnt": {task: right for end in ends for task, right in end.get("unlearnt", {}).items()},
        "memory": ends[-1]["memory"],
        "capacity": _capacity(ends),
        "gates": _gates(ends),
        "macs": _macs(ends),
        "audit": ends[-1]["audit"],
        "environment": {**made_in, "device": ends[-1].get("device", "cpu")},
        "command": command,
    }


def environment() -> dict[str, Any]:
    """The machine and the software, as far as they can change a number; to be asked before the source can change."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "lockgate": __version__,
        "commit": _commit(),
        "platform": platform.platform(),
        "cpu": _cpu(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _commit() -> str | None:
    """The commit of the source, if it is run from a checkout; `-dirty` if files have changed since."""
    git = ["git", "--no-optional-locks", "-C", str(Path(__file__).parent)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", __file__], check=True, capture_output=True, timeout=10)
        described = [*git, "describe", "--always", "--dirty", "--exclude", "*"]
        return subprocess.run(described, check=True, capture_output=True, text=True, timeout=10).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _inference(ends: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What each kind of inference comes to without a task, where there are several."""
    kinds = ends[-1]["inference"] or {}
    return {kind: summarise([end["inference"][kind] for end in ends]) for kind in kinds} if len(kinds) > 1 else None


def _capacity(ends: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Filters used after, and relevant to, each task: by layer."""
    if not ends[-1]["capacity"]:
        return None
    layers = []
    for index, last in enumerate(ends[-1]["capacity"]):
        history = [end["capacity"][index] for end in ends]
        layers.append(
            {
                "layer": last["layer"],
                "width": last["width"],
                "used_after": [entry["used"] for entry in history],
                "relevant": [entry["relevant"] for entry in history],
            }
        )
    return {"layers": layers}


def _gates(ends: list[dict[str, Any]]) -> dict[str, list[list[float]]] | None:
    """By layer, a row for each task: for what share of its held-out images each of its gates fires."""
    return {layer: [end["gates"][layer] for end in ends] for layer in ends[-1]["gates"]} or None


def _macs(ends: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Dense counts, and the mean over tasks after each stage."""
    if not ends[-1].get("macs"):
        return None
    stages = [end["macs"] for end in ends]
    return {
        "dense": stages[0]["dense"],
        "dense_paper": stages[0]["dense_paper"],
        "task_incremental": [stage["mean"] for stage in stages],
        "task_incremental_paper": [stage["mean_paper"] for stage in stages],
        "by_task": stages[-1]["by_task"],
    }
