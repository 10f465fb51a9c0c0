"""What was chosen for a task, in words: printed before it is learnt."""

from __future__ import annotations

from collections.abc import Sequence

from lockgate.app.start import Start
from lockgate.config import Experiment
from lockgate.methods import METHODS
from lockgate.report.formatting import plural
from lockgate.scenario.incremental import class_weights


def describe(
    schedule: Experiment,
    name: str,
    classes: Sequence[str],
    counts: Sequence[int],
    probes: int,
    start: Start | None,
) -> list[str]:
    """The choices in words. ``start``: of a new model, what it starts from; None: of a later task."""
    closed_form = METHODS[schedule.method].closed_form
    known = f"{len(classes)} class{'es' * (len(classes) > 1)} ({_some(classes)})"
    lines = [f"task {name!r}: {sum(counts)} images of {known}"]
    if start is not None:
        lines += _of_the_model(schedule, start, closed_form)
    gan = schedule.options.get("gan", {}).get("iterations")
    generator = f"; {gan} iterations of its generator" if gan else ""
    lines.append(
        "  schedule: one pass over the images; nothing is trained"
        if closed_form
        else f"  schedule: {plural(schedule.epochs, 'epoch')}, {schedule.optim.batch_size} images a step{generator}"
    )
    if class_weights(counts) and not closed_form:
        lines.append(f"  classes differ in size ({min(counts)} to {max(counts)}): each counts the same in the loss")
    if probes:
        lines.append(f"  probes: up to {probes} test images of this task are kept, to prove later that answers stayed")
    return lines


def _of_the_model(schedule: Experiment, start: Start, closed_form: bool) -> list[str]:
    """What the first task fixes."""
    size, grey = schedule.data.image_size, schedule.data.greyscale
    how = "the middle, resized" if schedule.data.resize == "crop" else "resized"
    width = f" {schedule.model.width} wide" if schedule.model.width else ""
    lines = [
        f"  images: {how} to {size}x{size}, {'grey' if grey else 'colour'}; fixed for this model",
        f"  network: {schedule.backbone}{width}, method {schedule.method}; fixed for this model",
    ]
    if start.reason:
        lines.append(f"  start: {'pretrained' if start.pretrained else 'from scratch'}, since {start.reason}")
    if closed_form:
        lines.append("  memory: sums of features, by which tasks are told apart too; none of your images")
    elif start.memory == "episodic":
        kept = schedule.options["buffer"]
        lines.append(f"  memory: up to {kept} of your images are kept inside the model, to tell tasks apart")
        if start.pretrained:
            lines.append("  answers: when training has ended; after one pass, solved for: without --memory or --epochs")
    elif start.memory == "none":
        lines.append("  memory: none, so you must say the task when you ask")
    return lines


def _some(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
