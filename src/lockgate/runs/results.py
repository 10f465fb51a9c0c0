"""What is recorded of a task that has ended, and what is said of it: accuracy, cost, promises, the audit's verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lockgate.evaluation import accuracy, exactness, macs
from lockgate.evaluation.chance import unlearnt
from lockgate.evaluation.features import StreamFeatures
from lockgate.evaluation.svm import stored_images_svm
from lockgate.methods.base import Method
from lockgate.methods.protocols import Auditable, TaskReport, memory_use, reading_once, report_of
from lockgate.scenario import Scenario
from lockgate.training.seeding import derive


def outcome(
    learner: Method,
    scenario: Scenario,
    before: Sequence[dict[str, Any]],
    stage: int,
    last: bool,
    seed: int,
    features: StreamFeatures,
    doing: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """What ``learner`` came to by the end of ``stage``; ``before`` holds the outcomes of the stages before.

    ``features`` are those of its streams before this stage, and after it. ``doing`` hears what is tested next.
    """
    seen, report = scenario.tasks[: len(learner.heads)], report_of(learner)
    images = f"{sum(len(task.test) for task in seen):,} images"
    doing("past answers")
    made = exactness.promise(learner, seen, features)
    promises = [promise for promise in [*(record["promise"] for record in before), made] if promise]
    with reading_once(learner):  # anew: what was read for the promise proves nothing
        verdict = (
            exactness.audit(learner, scenario.tasks, promises, _tested(learner, stage, last, seed))
            if promises
            else None
        )
        # What has not changed by a bit answers as it did: then only the new task is tested. Without this, a run's time
        # would grow with the square of its tasks.
        same = _is_sealed(learner) and verdict is not None and verdict.ok and bool(before)
        known: dict[str, Any] = before[-1] if same else {"task_incremental": [], "macs": None}
        if not same:
            features.forget()
        doing(f"{images}, no task given")
        open_ = accuracy.without_task(learner, seen, features)
        doing(f"{images}, the task given")
        return {
            "evaluated": "held-out" if seen[-1].test is seen[-1].val else "test",
            "task_incremental": accuracy.task_incremental(learner, seen, known["task_incremental"]),
            "class_incremental": open_.rows[accuracy.inference_of(learner)] if open_ else None,
            "domain_incremental": (
                open_.class_found[accuracy.inference_of(learner)] if open_ and scenario.shares_classes else None
            ),
            "inference": open_.rows if open_ else None,
            "task_found": open_.task_found if open_ else None,
            "svm": stored_images_svm(learner, seen, seed) if open_ else None,
            "unlearnt": unlearnt(learner, seen[len(before) :] if len(seen) > len(before) else seen),
            "memory": memory_use(learner),
            "capacity": [entry.to_dict() for entry in report.capacity],
            "gates": {layer: [round(share, 5) for share in shares] for layer, shares in report.fired.items()},
            "macs": macs.stage_macs(learner, seen, (known["macs"] or {}).get("by_task", [])),
            "promise": made,
            "audit": verdict.to_dict() if verdict else None,
        }


def _is_sealed(learner: Method) -> bool:
    return isinstance(learner, Auditable) and learner.sealed


def _tested(learner: Method, stage: int, last: bool, seed: int) -> set[int] | None:
    """The past tasks whose answers are audited, beside every tensor promised: one in turn; at the end all (None)."""
    if not _is_sealed(learner) or last:
        return None
    return {derive(seed, "audit", stage) % max(1, stage)}


def epoch_in_words(record: dict[str, Any], epochs: int) -> str:
    """The record of an epoch of a phase that has so many ``epochs``, in a line."""
    name = "" if record["event"] == "epoch" else f"{record['event']}  "
    losses = "  ".join(f"{key} {value:.4f}" for key, value in record["losses"].items())
    judged = f"held-out accuracy {record['val_accuracy']:.4f}  " if "val_accuracy" in record else ""
    return f"{name}epoch {record['epoch'] + 1}/{epochs}  {losses}  {judged}{record['seconds']:.1f} s"


def in_words(record: dict[str, Any], report: TaskReport) -> Iterator[str]:
    """An outcome, line by line."""
    on = record.get("evaluated", "test")
    yield f"{on} accuracy, task given: {_row(record['task_incremental'])}"
    if record["class_incremental"]:
        yield f"{on} accuracy, no task given: {_row(record['class_incremental'])}"
        if record["svm"] is not None:
            yield f"an SVM on the stored images has {record['svm']:.4f} on average"
        yield f"{on} images put into the right task: {_row(record['task_found'])}"
    if record.get("domain_incremental"):
        yield f"{on} accuracy, the class alone: {_row(record['domain_incremental'])}"
    if record["capacity"]:
        yield "filters locked: " + ", ".join(f"{e['layer']} {e['used']}/{e['width']}" for e in record["capacity"])
    yield from report.notes
    yield from (f"warning: {note}" for note in report.warnings)
    for task, right in record.get("unlearnt", {}).items():
        yield (
            f"warning: task {int(task) + 1} was NOT LEARNT: {right:.3f} of its held-out images are right, the task "
            "given, as if by guessing. Give it more epochs or images, or another `optim.lr`."
        )
    if record["audit"] and not record["audit"]["ok"]:
        yield f"warning: past answers changed: {record['audit']['broken'][0]}"


def _row(values: Sequence[float]) -> str:
    return " ".join(f"{value:.4f}" for value in values)
