"""The charts of a run, each an inline SVG: learning curves, accuracy over tasks, capacity per layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from lockgate.report import formatting
from lockgate.report.schema import Epoch, Layer, Run, Scores, Summary
from lockgate.report.svg import Figure, Frame, document, element, hint, text, ticks, trace

WIDTH, HEIGHT = 480.0, 300.0
VIEW = f"0 0 {WIDTH:.0f} {HEIGHT:.0f}"
EDGES = {"left": 48.0, "top": 26.0, "right": WIDTH - 8, "bottom": HEIGHT - 40}
ROW = 38  # pixels of a capacity bar and the words above it
COLOURS = 6  # the style sheet has s0 ... s5
Series = Mapping[str, Sequence[float | None]]


def losses(run: Run) -> Figure | None:
    """Every loss term over the epochs, and the objective on held-out data."""
    names = dict.fromkeys(name for epoch in run.epochs for name in epoch.losses)
    series: dict[str, list[float | None]] = {name: [e.losses.get(name) for e in run.epochs] for name in names}
    series["held-out objective"] = [e.val_objective for e in run.epochs]
    return _curves("Loss terms", "Loss terms while training, and the objective on held-out data.", run.epochs, series)


def held_out(run: Run) -> Figure | None:
    """Accuracy on held-out data of the task being learnt; a ring marks the epoch whose weights were kept."""
    best = {(stage.task, stage.best_epoch) for stage in run.stages}
    rings = [(i, e.val_accuracy) for i, e in enumerate(run.epochs) if (e.task, e.epoch) in best]
    series = {"held-out accuracy": [e.val_accuracy for e in run.epochs]}
    kept = "A ring marks the epoch that was kept." if rings else "The last epoch of each task was kept."
    caption = f"Accuracy on held-out data of the task being learnt. {kept}"
    return _curves("Held-out accuracy", caption, run.epochs, series, rings, ceiling=1.0)


def open_gates(run: Run) -> Figure | None:
    """Mean share of gates that are open; only gated methods have any."""
    series = {"open gates": [e.open for e in run.epochs]}
    return _curves("Open gates", "Mean share of gates that are open.", run.epochs, series)


def critic(run: Run) -> Figure | None:
    """The critic's loss over the epochs of each task's generator; only a generative memory has any."""
    caption = (
        "The critic's loss while the generator of each task was trained, before the task: "
        "the closer to zero, the less it can tell generated images from real ones."
    )
    series = {"critic's loss": [e.losses.get("critic") for e in run.generators]}
    return _curves("Generators", caption, run.generators, series)


def _curves(
    title: str,
    caption: str,
    epochs: Sequence[Epoch],
    series: Series,
    rings: Sequence[tuple[int, float | None]] = (),
    ceiling: float | None = None,
) -> Figure | None:
    series = {name: values for name, values in series.items() if any(value is not None for value in values)}
    values = [value for line in series.values() for value in line if value is not None]
    if not values:
        return None
    low, high = (lowest(values), ceiling) if ceiling else (min(0.0, *values), max(values))
    frame = Frame((-0.5, len(epochs) - 0.5), ticks(low, high), **EDGES)
    spans = [(task, [i for i, _ in group]) for task, group in groupby(enumerate(epochs), lambda pair: pair[1].task)]
    body = [*_bands(frame, spans), *frame.grid(), *_epoch_axis(frame, len(epochs))]
    legend = []
    for n, (name, line) in enumerate(series.items()):
        # One path per task: the curve of a task has no business joining the next one's.
        data = "".join(trace([frame.at(i, line[i]) for i in span]) for _, span in spans)
        body.append(element("path", hint(name), d=data, class_=f"line s{n % COLOURS}"))
        legend.append((name, f"s{n % COLOURS}"))
    for i, value in rings:
        x, y = frame.at(i, value)
        if y is not None:
            label = f"task {epochs[i].task + 1}: epoch {epochs[i].epoch + 1} kept, {formatting.score(value)}"
            body.append(element("circle", hint(label), cx=x, cy=y, r=5, class_="ring"))
    described = f"{caption} {formatting.plural(len(epochs), 'epoch')} over {formatting.plural(len(spans), 'task')}."
    svg = document(title, described, body, viewBox=VIEW)
    return Figure(title, caption, svg, tuple(legend) if len(legend) > 1 else ())


def _bands(frame: Frame, spans: Sequence[tuple[int, Sequence[int]]]) -> Iterator[str]:
    for n, (task, span) in enumerate(spans):
        (start, _), (end, _) = frame.at(span[0] - 0.5, None), frame.at(span[-1] + 0.5, None)
        size = {"x": start, "y": frame.top, "width": end - start, "height": frame.bottom - frame.top}
        if n % 2 == 0:
            yield element("rect", **size, class_="band")
        if n > 0:
            yield element("line", x1=start, x2=start, y1=frame.top - 14, y2=frame.bottom, class_="boundary")
        name = f"task {task + 1}" if end - start > 56 else str(task + 1) if end - start > 14 else ""
        yield text((start + end) / 2, frame.top - 8, name, "tick", "middle")


def _epoch_axis(frame: Frame, epochs: int) -> Iterator[str]:
    for value in ticks(0, epochs - 1, about=8):
        if value == int(value) and value < epochs:
            yield text(frame.at(value, None)[0], frame.bottom + 17, f"{value:.0f}", "tick", "middle")
    yield text((frame.left + frame.right) / 2, HEIGHT - 5, "epoch, counted over all tasks", "label", "middle")


def accuracy(summary: Summary) -> Figure | None:
    """Mean accuracy over the tasks seen so far (bold) and each task on its own (faint), stage by stage."""
    kinds: list[tuple[str, Scores]] = [("task-incremental", summary.task_incremental)]
    if summary.class_incremental is not None:
        kinds.append(("class-incremental", summary.class_incremental))
    stages = len(summary.task_incremental.matrix)
    values = [value for _, scores in kinds for row in scores.matrix for value in row if value is not None]
    if stages < 2 or not values:
        return None
    frame = Frame((0, stages - 1), ticks(lowest(values), 1.0), **(EDGES | {"left": 54.0, "right": WIDTH - 20}))
    faint, bold = [], []
    for n, (kind, scores) in enumerate(kinds):
        for j in range(len(scores.matrix[-1])):
            line = [frame.at(i, row[j]) for i, row in enumerate(scores.matrix) if j < len(row)]
            faint.append(element("path", hint(f"{kind}, task {j + 1}"), d=trace(line), class_=f"faint s{n}"))
        means = [formatting.mean(row) for row in scores.matrix]
        said = f"{kind}, mean: " + ", ".join(map(formatting.score, means))
        line = [frame.at(i, mean) for i, mean in enumerate(means)]
        bold.append(element("path", hint(said), d=trace(line), class_=f"line s{n}"))
    axis = [text(frame.at(i, None)[0], frame.bottom + 17, str(i + 1), "tick", "middle") for i in range(stages)]
    axis.append(text((frame.left + frame.right) / 2, HEIGHT - 5, "after task", "label", "middle"))
    caption = "Accuracy as tasks arrive: the mean over the tasks seen so far (bold), and each task on its own (faint)."
    title, body = "Accuracy over tasks", [*frame.grid(), *axis, *faint, *bold]
    svg = document(title, caption, body, viewBox=VIEW)
    return Figure(title, caption, svg, tuple((kind, f"s{n}") for n, (kind, _) in enumerate(kinds)))


def capacity(layers: Sequence[Layer]) -> Figure | None:
    """One bar per layer: the filters that each task took, and those still free."""
    if not layers:
        return None
    tasks = max(len(layer.used_after) for layer in layers)
    # Lengths across are in per cent, so the bars stretch with the page and the words keep their size.
    body = [part for n, layer in enumerate(layers) for part in _bar(layer, n * ROW, tasks)]
    used, total = sum(layer.used for layer in layers), sum(layer.width for layer in layers)
    caption = f"Filters that each task took, as a share of the layer; {used:,} of {total:,} are in use at the end."
    legend = tuple((f"task {task + 1}", shade(task, tasks)) for task in range(tasks))
    title = "Filters per layer"
    svg = document(title, caption, body, width="100%", height=len(layers) * ROW)
    return Figure(title, caption, svg, (*legend, ("free", "free")))


def _bar(layer: Layer, top: int, tasks: int) -> Iterator[str]:
    place = {"y": top + 19, "height": 12}
    yield text(0, top + 14, layer.name, "label")
    yield text("100%", top + 14, f"{layer.used} of {layer.width}", "tick", "end")
    yield element("rect", x=0, width="100%", **place, class_="free")
    taken = 0
    for task, used in enumerate(layer.used_after):
        new = max(0, used - taken)
        start, length = (f"{100 * part / layer.width:.2f}%" for part in (taken, new))
        said = hint(f"{layer.name}: task {task + 1} took {formatting.plural(new, 'filter')}")
        if new:
            yield element("rect", said, x=start, width=length, **place, class_=shade(task, tasks))
        taken += new


def shade(task: int, tasks: int) -> str:
    """Class of a task's colour: ten steps, `t0` the first task to `t9` the last."""
    return f"taken t{round(9 * task / max(1, tasks - 1))}"


def lowest(values: Sequence[float]) -> float:
    """Where an axis of accuracies begins: at nothing if any is below a half, else just below the least."""
    return 0.0 if min(values) < 0.5 else max(0.0, min(*values, 0.95))
