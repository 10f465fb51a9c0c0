"""Compiled inference of a trained run against its dense backbone: CPU seconds on one thread, interleaved.

    python benchmarks/inference.py RUN [--batch 256 1] [--rounds N] [--images N] [--no-onnx]

RUN is a run folder of a gated method. The dense backbone is the same network without gates, with one head, timed in
the fastest of its forms: channels first, channels last, or compiled (BatchNorm folded). "Task given" is the mean over
the run's tasks, each on its own test images; "no task given" is one batch of all tasks' images through all streams.
ONNX Runtime is compared with the dense backbone exported the same way. Agreement with the run is checked first, on
``images`` test images of each task (0: all). Of the rounds, each form's fastest counts: neighbours on a shared machine
slow down what is bound by memory more than what is bound by arithmetic, and come and go between rounds.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from lockgate.app.export import require_onnx, session, write_onnx
from lockgate.errors import LockgateError
from lockgate.evaluation.macs import task_macs
from lockgate.inference.check import compare
from lockgate.inference.compile import Compiled, compile_learner
from lockgate.methods.base import Method
from lockgate.methods.protocols import FindsTask
from lockgate.report.load import read as read_run
from lockgate.reproduction.write import command_of
from lockgate.runs.build import build_learner, validated
from lockgate.runs.loading import load
from lockgate.scenario import Scenario
from timing import interleaved, table, times

SAMPLE = 200
"""Held-out images of each task that show which filters are seldom needed."""

Answer = Callable[[Tensor], object]


def dense_of(experiment, image_shape) -> Method:
    """The same backbone without gates."""
    plain = validated(dataclasses.replace(experiment, method="finetune", options={}))
    learner = build_learner(plain, image_shape)
    learner.add_task(2)
    return learner.eval()


def dense_forms(learner: Method) -> dict[str, Answer]:
    last = copy.deepcopy(learner).to(memory_format=torch.channels_last)
    return {
        "channels first": partial(learner.predict, task=0),
        "channels last": partial(last.predict, task=0),
        "compiled": partial(compile_learner(learner).predict, task=0),
    }


def batches(scenario: Scenario, tasks: int, size: int) -> tuple[list[Tensor], Tensor]:
    """A batch of each task's test images, and one of all tasks'."""
    own = [_repeated(task.test.x, size) for task in scenario.tasks[:tasks]]
    every = torch.cat([task.test.x for task in scenario.tasks[:tasks]])
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(0))
    return own, _repeated(every[order], size)


def _repeated(images: Tensor, size: int) -> Tensor:
    """The first ``size`` images, from the start again where there are fewer."""
    return images[torch.arange(size) % len(images)].contiguous()


def measure(
    dense: dict[str, Answer],
    given: list[Answer],
    together: Answer | None,
    own: list[Tensor],
    mixed: Tensor,
    rounds: int,
) -> tuple[float, str, float, float | None]:
    """Seconds of a batch: of the fastest dense form (and its name), of a task given, and of no task given."""
    functions: dict[str, Callable[[], object]] = {name: partial(form, mixed) for name, form in dense.items()}
    functions |= {f"task {t}": partial(answer, x) for t, (answer, x) in enumerate(zip(given, own, strict=True))}
    if together is not None:
        functions["together"] = partial(together, mixed)
    with torch.inference_mode():
        found = interleaved(functions, rounds, repeat=1 if len(mixed) >= 32 else 10, of=min)
    best = min(dense, key=lambda name: found[name])
    mean = sum(found[f"task {t}"] for t in range(len(given))) / len(given)
    return found[best], best, mean, found.get("together")


def onnx_answers(compiled: Compiled, dense: Method, x: Tensor, folder: Path):
    """The dense backbone, each task's network and the one for all, in ONNX Runtime on one thread."""

    def through(network: nn.Module, name: str) -> Answer:
        write_onnx(network, x[:2], {}, folder / f"{name}.onnx")
        return session(folder / f"{name}.onnx", threads=1)

    tasks = [through(task, f"task{t}") for t, task in enumerate(compiled.tasks)]
    together = through(compiled.together, "all") if compiled.together is not None else None
    return {"exported": through(compile_learner(dense).tasks[0], "dense")}, tasks, together


def mac_ratios(learner: Method, scenario: Scenario, mixed: Tensor) -> tuple[float, float | None]:
    """Dense multiply-accumulates over those that are needed, gates included: the task given; and without it, of all
    streams on a mixed batch and of what finds the task, where something does."""
    tasks = scenario.tasks[: len(learner.heads)]
    own = [task_macs(learner, task.test.x[:512], task.id) for task in tasks]
    dense = own[0]["dense"]
    given = dense / (sum(m["open"] + m["gates"] for m in own) / len(own))
    if not isinstance(learner, FindsTask):
        return given, None
    every = [task_macs(learner, mixed, task.id) for task in tasks]
    return given, dense / (sum(m["open"] + m["gates"] for m in every) + learner.finder_macs[-1][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--batch", type=int, nargs="+", default=[256, 1])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--images", type=int, default=0)
    parser.add_argument("--no-onnx", action="store_true")
    given = parser.parse_args()
    learner, scenario, experiment = load(given.run)
    torch.set_num_threads(1)  # after load, which takes the run's own number
    tasks = len(learner.heads)
    compiled = compile_learner(learner, torch.cat([task.val.x[:SAMPLE] for task in scenario.tasks[:tasks]]))
    tested = [task.test.x[: given.images or None] for task in scenario.tasks[:tasks]]
    every = torch.cat(tested)
    print(f"{experiment.method}, {experiment.dataset}, {experiment.backbone}, {tasks} tasks: {given.run}")
    print(f"made by `{command_of(read_run(given.run).summary.command)}`\n")
    if learner.class_incremental:
        print(f"no task given: {compare(learner, partial(compiled.predict, task=None), every, None).text()}")
    for t, x in enumerate(tested):
        print(f"task {t}: {compare(learner, partial(compiled.predict, task=t), x, t).text()}")
    dense = dense_of(experiment, scenario.image_shape)
    open_given, open_all = mac_ratios(learner, scenario, batches(scenario, tasks, 512)[1])
    forms = {"torch": (dense_forms(dense), [partial(compiled.predict, task=t) for t in range(tasks)], None)}
    if learner.class_incremental:
        forms["torch"] = (*forms["torch"][:2], partial(compiled.predict, task=None))
    with tempfile.TemporaryDirectory() as folder:
        if not given.no_onnx:
            try:
                require_onnx()
                forms["ONNX Runtime"] = onnx_answers(compiled, dense, every, Path(folder))
            except LockgateError as error:
                print(error)
        rows = []
        for size in given.batch:
            own, mixed = batches(scenario, tasks, size)
            for name, (plain, each, together) in forms.items():
                base, form, one, all_ = measure(plain, each, together, own, mixed, given.rounds)
                given_ratio, all_ratio = times(base / one), "" if all_ is None else times(base / all_)
                cells = [f"{1e3 * base:.3g} ({form})", f"{1e3 * one:.3g}", "" if all_ is None else f"{1e3 * all_:.3g}"]
                rows.append([size, name, *cells, given_ratio, all_ratio])
    head = ["batch", "in", "dense, ms", "task given, ms", "no task given, ms", "task given", "no task given"]
    table("Times faster than the dense backbone", head, rows)
    without = "" if open_all is None else f", {times(open_all)} fewer with no task given, what finds it included"
    print(f"\nMACs, gates included: {times(open_given)} fewer task given{without}.")


if __name__ == "__main__":
    main()
