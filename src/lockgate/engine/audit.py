"""``lockgate audit``: a finished run's promises against its newest checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch

from lockgate.engine.folder import RunFolder
from lockgate.engine.records import read_records
from lockgate.engine.run import load
from lockgate.errors import ExactnessError
from lockgate.evaluation.exactness import Verdict, audit


def audit_run(out: Path) -> Verdict:
    """Re-compute every digest that a task left behind: locked tensors, and logits on its test set."""
    learner, scenario, experiment = load(out)
    ends = [r for r in read_records(RunFolder(out).records) if r["event"] == "task" and r["task"] < len(learner.heads)]
    promises = [record["promise"] for record in ends if record["promise"]]
    if not promises:
        raise ExactnessError(
            f"{out} has nothing to audit: the method {experiment.method!r} promises nothing about past answers."
        )
    # Logits are bit-equal for equal kernels, and kernels depend on the number of threads.
    threads = torch.get_num_threads()
    torch.set_num_threads(ends[-1]["threads"])
    try:
        return audit(learner, scenario.tasks, promises)
    finally:
        torch.set_num_threads(threads)
