"""A model that grows, and what it says about images, as plain text for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lockgate.report import formatting
from lockgate.report.terminal import table

BLIND = "answers were not compared: no probes are kept"


def inspect_text(found: dict[str, Any]) -> str:
    """What `lockgate inspect` found."""
    channels, height, width = found["image_shape"]
    kind = "grey" if channels == 1 else "colour"
    tasks = found["tasks"]
    head = (
        f"{found['model']}: {formatting.plural(len(tasks), 'task')}, "
        f"{sum(len(task['classes']) for task in tasks)} classes; {found['method']} on "
        f"{found['backbone']}, images {height}x{width} {kind}"
    )
    layers = [_layers(found["capacity"])] if found["capacity"] else []  # a frozen network has none to take
    parts = [head, _tasks(found), *layers, _bytes(found["bytes"], found["memory"])]
    integrity = f"Integrity: {found['integrity']} ({found['checkpoint']})."
    parts.append(f"{integrity} Last audit, when it learnt: {_last_audit(tasks, found['audit'])}.")
    parts += [f"warning: {said}" for said in found["warnings"]]
    return "\n\n".join(parts)


def task_text(found: dict[str, Any]) -> str:
    """What learning a task came to, right after it."""
    *past, new = found["tasks"]
    lines = [
        f"Learnt {new['name']!r}: accuracy {formatting.score(new['accuracy'])} on images held out, the task given."
    ]
    if past and found["class_incremental"]:
        lines.append(_without_task(past, new, found["class_incremental"]))
    if past:
        lines.append(_old_answers(past, new, found["audit"]))
    sizes = found["bytes"]
    lines.append(
        f"On disk: network {sizes['network']:,} bytes, memory {sizes['memory']:,}, probes {sizes['probes']:,}."
    )
    lines += [f"warning: {said}" for said in found["warnings"]]
    return "\n".join(lines)


def _without_task(past: Sequence[dict[str, Any]], new: dict[str, Any], row: Sequence[float]) -> str:
    """Accuracy with no task given, where there is something to measure it on: past tasks have only their probes."""
    if not any(task["probes"] for task in past):
        return f"No task given: {formatting.score(row[-1])} on {new['name']!r}."
    missing = ", ".join(repr(task["name"]) for task in past if not task["probes"])
    left_out = f"; none are kept of {missing}" if missing else ""
    cells, mean = " ".join(map(formatting.score, row)), formatting.score(formatting.mean(tuple(row)))
    return f"No task given: {cells}, mean {mean} (past tasks: on their probes{left_out})."


def _old_answers(past: Sequence[dict[str, Any]], new: dict[str, Any], audit: dict[str, Any]) -> str:
    """What the audit compared, and what it found."""
    compared = audit["logits"] - bool(new["probes"])  # the new task's were compared with themselves
    of = "" if compared == len(past) else f"{compared} of "
    logits = f", logits of {of}{formatting.plural(len(past), 'past task')}" if compared else ""
    same = "are bit-equal to what they were" if audit["ok"] else f"HAVE CHANGED: {audit['broken'][0]}"
    blind = f"; {BLIND} of past tasks" if not compared else ""
    return f"Old answers: {audit['tensors']} locked tensors{logits} {same}{blind}."


def _last_audit(tasks: Sequence[dict[str, Any]], audit: dict[str, Any]) -> str:
    if not audit["ok"]:
        return "OLD ANSWERS HAD CHANGED"
    if all(task["probes"] for task in tasks):
        return "all old answers were bit-equal"
    if not audit["logits"]:
        return f"locked tensors were bit-equal; {BLIND}"
    return "locked tensors were bit-equal, and so were answers where probes are kept"


def _tasks(found: dict[str, Any]) -> str:
    rows = [["task", "classes", "images", "task given", "not given", "MACs", "of dense", "probes"]]
    for task in found["tasks"]:
        cells = [
            formatting.score(task["accuracy"]),
            formatting.score(task["class_incremental"]),
            f"{task['macs']:,.0f}",
        ]
        share = formatting.share(task["macs"], task["dense_macs"])
        count = str(len(task["classes"]))
        rows.append([task["name"], count, f"{task['images']:,}", *cells, share, str(task["probes"])])
    names = [f"  {task['name']}: {', '.join(task['classes'])}" for task in found["tasks"]]
    title = "Tasks, with accuracy on images held out when each was learnt"
    return "\n".join([title, *table(rows), "", "Classes", *names])


def _layers(capacity: Sequence[dict[str, Any]]) -> str:
    rows = [["layer", "filters", "used", "left"]]
    rows += [[layer["layer"], *(str(layer[key]) for key in ("width", "used", "free"))] for layer in capacity]
    return "\n".join(["Filters (full layers widen by themselves)", *table(rows)])


def _bytes(sizes: dict[str, int], memory: dict[str, int] | None) -> str:
    kept = f" ({memory['images']} images)" if memory and memory["images"] else ""
    kept = " (statistics, no images)" if memory and memory.get("statistics") else kept
    rows = [
        ["network", f"{sizes['network']:,}"],
        [f"memory{kept}", f"{sizes['memory']:,}"],
        ["probes", f"{sizes['probes']:,}"],
        ["folder, with what is kept to go back to", f"{sizes['folder']:,}"],
    ]
    return "\n".join(["Bytes", *table(rows)])


class AnswerTable:
    """A table of images and what they were taken for, as it comes: a line an answer, the image named once."""

    def __init__(self) -> None:
        self._rows: list[list[str]] = [["image", "class", "task", "confidence"]]
        self._widths = [0, 0, 0, 0]

    def add(self, item: Any) -> None:
        """One more image."""
        for rank, answer in enumerate(item.answers):
            # A name that is not UTF-8 is shown escaped: it must not cost the answers.
            path = "" if rank else item.path.encode("utf-8", "backslashreplace").decode()
            self._rows.append([path, answer.name, answer.task, f"{answer.confidence:.4f}"])

    def lines(self, fewest: int = 1) -> list[str]:
        """What was added since the last call, if it is so many lines; columns widen when they must, and only then."""
        if len(self._rows) < fewest or (
            len(self._rows) == fewest and not any(self._widths)
        ):  # the heading is no answer
            return []
        columns = zip(self._widths, zip(*self._rows, strict=True), strict=True)
        self._widths = [max(width, *map(len, column)) for width, column in columns]
        found, self._rows = table(self._rows, self._widths), []
        return found
