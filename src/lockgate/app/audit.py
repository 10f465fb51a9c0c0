"""``lockgate audit``: the promises of a run or a model against its newest end of a task."""

from __future__ import annotations

from pathlib import Path

from lockgate.app.model_dir import is_model, read_model, require_trained
from lockgate.errors import ExactnessError
from lockgate.evaluation.exactness import Verdict, audit
from lockgate.runs.loading import load, place, read_ends_of
from lockgate.runs.objects import NOTHING, Objects
from lockgate.training.device import is_here, prepare_process, promised_on, threads


def audit_run(out: Path, objects: Objects = NOTHING) -> Verdict:
    """Re-compute every digest that a task left behind: locked tensors, and logits on its test set or its probes."""
    require_trained(out)
    if is_model(out):
        model = read_model(out)
        prepare_process(model.experiment)
        learner, tasks, experiment = model.learner(), model.probed(), model.experiment
        ends = model.records()
    else:
        learner, scenario, experiment = load(out, objects)
        tasks, ends = scenario.tasks, read_ends_of(out)
    promises = [record["promise"] for record in ends if record["promise"]]
    if not promises:
        raise ExactnessError(
            f"{out} has nothing to audit: the method {experiment.method!r} promises nothing about past answers."
        )
    device = promised_on(ends)
    if not is_here(device):
        raise ExactnessError(
            f"{out} promised its answers on {device.type!r}, which is not here; bits differ from device to device. "
            "Audit it where it was trained."
        )
    place(learner, experiment, device)
    with threads(ends[-1]["threads"]):
        return audit(learner, tasks, promises)
