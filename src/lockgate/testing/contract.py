"""What every method must do, whoever wrote it: a class of pytest tests, made for one method."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from lockgate.config import Experiment, merge
from lockgate.evaluation.accuracy import class_incremental, task_incremental
from lockgate.methods import METHODS
from lockgate.methods.base import Method
from lockgate.methods.validation import method_problems
from lockgate.runs.build import build_learner, build_scenario, experiment_from
from lockgate.runs.loading import load, place
from lockgate.runs.run import resume, run
from lockgate.testing.observing import counted_steps, last_state, useful_steps
from lockgate.testing.tiny import tiny_experiment
from lockgate.types import Batch, State, Task

Make = Callable[..., Experiment]
"""``(method, backbone, **over) -> Experiment``."""


def method_contract(
    method: str | type[Method],
    backbones: Sequence[str] = ("simple_cnn",),
    options: Mapping[str, Any] | None = None,
    experiment: Make = tiny_experiment,
) -> type[MethodContract]:
    """A class of tests for ``method``, a name or the class itself; give it a name that pytest collects.

    ``options`` are the method's in these tiny experiments; ``experiment`` makes them, if others are wanted.
    """
    if not isinstance(method, str):
        name = re.sub(r"[^\w.]", "", f"{method.__module__}.{method.__qualname__}")
        METHODS.register(name, method)
        method = name
    values = {
        "method": method,
        "backbones": tuple(backbones),
        "options": dict(options or {}),
        "make": staticmethod(experiment),
        "__doc__": f"The contract of methods, for {method!r}.",
    }
    return type("MethodContractOf" + re.sub(r"\W", "_", method), (MethodContract,), values)


class MethodContract:
    """The tests; ``method_contract`` makes the class to collect."""

    method: ClassVar[str]
    backbones: ClassVar[tuple[str, ...]]
    options: ClassVar[dict[str, Any]]
    make: ClassVar[Make]

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Pytest's hook: each test that asks for a backbone runs on every one."""
        if "backbone" in metafunc.fixturenames:
            metafunc.parametrize("backbone", self.backbones)

    def method_class(self) -> type[Method]:
        """The method that is tested."""
        return METHODS[self.method]

    # -- before training ---------------------------------------------------------------------------------------------

    def test_the_class_and_its_options_are_complete(self) -> None:
        """Hooks take what the engine gives; every option has a sentence, and a default that fits it."""
        cls = METHODS[self.method]
        problems = method_problems(cls)
        assert not problems, problems
        silent = [f.name for f in dataclasses.fields(cls.Options) if not f.metadata.get("help", "a group").strip()]
        assert not silent, f"options without a sentence of help: {silent}"
        experiment = self.experiment(self.backbones[0])
        assert experiment_from(experiment.to_dict()) == experiment, "a configuration is not read back as it was written"

    def test_predict_gives_logits_of_the_tasks_classes(self, backbone: str) -> None:
        """(B, classes of the task), and without a task (B, classes seen)."""
        learner, task = self.begun(backbone)
        learner.eval()
        for size in (1, 7):
            _same(tuple(learner.predict(task.test.x[:size], task.id).shape), (size, len(task.classes)), "logits")
        if learner.class_incremental:
            _same(tuple(learner.predict(task.test.x[:3], None).shape), (3, len(task.classes)), "logits without a task")

    def test_losses_are_finite_scalars_and_reach_every_trainable_parameter(self, backbone: str) -> None:
        """Data-parallel training needs every trainable parameter in every step."""
        learner, task = self.begun(backbone)
        learner.epoch = 10
        losses = learner(Batch(task.train.x[:8], task.train.y[:8], task.train.task[:8]))
        wrong = [name for name, value in losses.items() if value.shape != () or not torch.isfinite(value)]
        assert not wrong, f"losses that are not finite scalars: {wrong}"
        if learner.closed_form:
            learning = [name for name, p in learner.named_parameters() if p.requires_grad]
            assert not learning, f"parameters that learn, of a method in closed form: {learning}"
            return
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        unused = [name for name, p in learner.named_parameters() if p.requires_grad and p.grad is None]
        assert not unused, f"trainable parameters without a gradient: {unused}"

    # -- whole runs --------------------------------------------------------------------------------------------------

    def test_the_same_seed_gives_the_same_bits(self, backbone: str, tmp_path: Path) -> None:
        """Two runs of one experiment end with equal states and equal accuracies."""
        experiment = self.experiment(backbone)
        first, second = run(experiment, tmp_path / "a"), run(experiment, tmp_path / "b")
        _same_state(last_state(tmp_path / "a"), last_state(tmp_path / "b"))
        _same(first["task_incremental"], second["task_incremental"], "accuracies")

    def test_a_single_task_works(self, tmp_path: Path) -> None:
        """Twenty classes at once."""
        self.run_tasks(1, tmp_path)

    def test_many_tasks_work(self, tmp_path: Path) -> None:
        """Twenty classes, two by two."""
        self.run_tasks(10, tmp_path)

    def test_a_batch_of_one_trains(self, tmp_path: Path) -> None:
        """Nothing in a step needs a second image."""
        experiment = self.experiment(epochs=1, optim={"batch_size": 1})
        with useful_steps() as steps:
            run(experiment, tmp_path / "run")
        images = sum(len(task.train) for task in build_scenario(experiment).tasks)
        least = images if self.method_class().schedule is Method.schedule else 2  # or it has a schedule of its own
        least = 0 if self.method_class().closed_form else least
        assert steps.count(True) >= least, f"{steps.count(True)} steps had a gradient; wanted {least}"

    def test_a_batch_larger_than_the_task_trains(self, tmp_path: Path) -> None:
        """A task smaller than a batch is one batch."""
        with useful_steps() as steps:
            run(self.experiment(epochs=1, optim={"batch_size": 512}), tmp_path / "run")
        least = 0 if self.method_class().closed_form else 1 if self.method_class().joint else 2
        assert steps.count(True) >= least, f"{steps.count(True)} steps had a gradient; wanted {least}"

    def test_a_finished_run_loads_and_answers_as_its_summary_says(self, backbone: str, tmp_path: Path) -> None:
        """What ``predict`` needs is in ``state_dict`` and ``structure``, from which the same learner is made again."""
        experiment = self.experiment(backbone)
        summary = run(experiment, tmp_path / "run")
        learner, scenario, _ = load(tmp_path / "run")
        tasks = scenario.tasks
        _same(task_incremental(learner, tasks), summary["task_incremental"]["matrix"][-1], "accuracies, task given")
        if learner.class_incremental:
            row = summary["class_incremental"]["matrix"][-1]
            _same(class_incremental(learner, tasks), row, "accuracies, no task given")
        fresh = build_learner(experiment, scenario.image_shape)
        fresh.rebuild(json.loads(json.dumps(learner.structure())))
        fresh.load_state_dict(learner.state_dict())
        place(fresh, experiment, torch.device("cpu"))  # in the run's memory format: bits depend on it
        _same(fresh.structure(), learner.structure(), "structures")
        _same_state(fresh.state_dict(), learner.state_dict())
        for task in (*range(len(tasks)), *([None] if learner.class_incremental else [])):
            one, other = (_answers(model, tasks[0].test.x, task) for model in (learner, fresh))
            assert torch.equal(one, other), f"logits of a restored learner differ, task {task}"

    def test_a_stopped_run_resumes_to_the_same_bits(self, tmp_path: Path) -> None:
        """Stopped in the middle of the first epoch, resumed, stopped in the middle of the last, and resumed.

        A method in closed form has no steps: it is stopped when the first task, and then the last, has ended.
        """
        experiment = self.experiment(runtime={"checkpoint_seconds": 0.0})  # after every step
        cls = METHODS[self.method]
        after = (1, 2) if cls.closed_form else (3, None)
        with counted_steps(cls) as steps:
            whole = run(experiment, tmp_path / "whole")
        with counted_steps(cls, stop_after=after[0]) as first, suppress(KeyboardInterrupt):
            run(experiment, tmp_path / "stopped")
        with counted_steps(cls, stop_after=after[1] or len(steps) - 4) as second, suppress(KeyboardInterrupt):
            resume(tmp_path / "stopped")
        wanted = list(after) if cls.closed_form else [3, len(steps) - 4]
        assert [len(first), len(second)] == wanted, "the run was never stopped: the test would prove nothing"
        resumed = resume(tmp_path / "stopped")
        _same_state(last_state(tmp_path / "whole"), last_state(tmp_path / "stopped"))
        _same(resumed["task_incremental"], whole["task_incremental"], "accuracies")

    # -- what the tests are made of ----------------------------------------------------------------------------------

    def experiment(self, backbone: str = "", **over: Any) -> Experiment:
        """A tiny experiment with the method under test."""
        return self.make(self.method, backbone or self.backbones[0], **merge({"options": self.options}, over))

    def begun(self, backbone: str) -> tuple[Method, Task]:
        """A learner at the start of its first task, and that task."""
        experiment = self.experiment(backbone)
        scenario = build_scenario(experiment)
        learner = build_learner(experiment, scenario.image_shape)
        learner.begin_task(scenario.tasks[0])
        return learner, scenario.tasks[0]

    def run_tasks(self, tasks: int, folder: Path) -> None:
        """Learn twenty classes in so many tasks."""
        data = {"synthetic_classes": 20, "synthetic_per_class": 10}
        summary = run(self.experiment(tasks=tasks, epochs=1, data=data), folder / "run")
        _same(len(summary["task_incremental"]["matrix"][-1]), tasks, "tasks tested")


@torch.no_grad()
def _answers(learner: Method, x: Tensor, task: int | None) -> Tensor:
    return learner.eval().predict(x, task)


def _same(got: object, wanted: object, what: str) -> None:
    # pytest explains the asserts of test files only, so these say themselves what they saw.
    assert got == wanted, f"{what}: got {got}, wanted {wanted}"


def _same_state(one: State, other: State) -> None:
    _same(sorted(one), sorted(other), "names in the state")
    differing = [name for name, value in one.items() if not torch.equal(value, other[name])]
    assert not differing, f"tensors that differ: {differing}"
