"""``lockgate audit``: the promises of a run or a model against its newest end of a task."""

from __future__ import annotations

from pathlib import Path

from lockgate.engine.device import prepare_process, threads
from lockgate.engine.folder import RunFolder
from lockgate.engine.model import is_model, read_model
from lockgate.engine.records import read_records
from lockgate.engine.run import load
from lockgate.errors import ExactnessError
from lockgate.evaluation.exactness import Verdict, audit


def audit_run(out: Path) -> Verdict:
    """Re-compute every digest that a task left behind: locked tensors, and logits on its test set or its probes."""
    if is_model(out):
        model = read_model(out)
        prepare_process(model.experiment)
        learner, tasks, method = model.learner(), model.probed(), model.experiment.method
        ends = model.records()
    else:
        learner, scenario, experiment = load(out)
        tasks, method = scenario.tasks, experiment.method
        ends = [
            r for r in read_records(RunFolder(out).records) if r["event"] == "task" and r["task"] < len(learner.heads)
        ]
    promises = [record["promise"] for record in ends if record["promise"]]
    if not promises:
        raise ExactnessError(f"{out} has nothing to audit: the method {method!r} promises nothing about past answers.")
    with threads(ends[-1]["threads"]):
        return audit(learner, tasks, promises)
