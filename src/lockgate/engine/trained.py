"""A trained learner with the names of what it knows: what predicting, exporting and serving start from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lockgate.engine.run import load
from lockgate.methods.base import Learner
from lockgate.types import Examples


@dataclass(frozen=True)
class Trained:
    """A learner in evaluation mode, as its newest finished task left it."""

    learner: Learner
    tasks: tuple[str, ...]
    """The name of every task learnt."""
    classes: tuple[tuple[str, ...], ...]
    """For every task, the names of its classes in the order of its local labels."""

    tests: tuple[Examples, ...]
    """For every task, its test images."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of all classes, in the order of ``Learner.predict`` without a task."""
        return tuple(name for names in self.classes for name in names)


def open_trained(path: Path) -> Trained:
    """The learner of the run folder ``path``."""
    learner, scenario, _experiment = load(path)
    seen = scenario.tasks[: len(learner.heads)]
    classes = tuple(scenario.names(task) for task in seen)
    tests = tuple(task.test for task in seen)
    return Trained(learner.eval(), tuple(" ".join(names) for names in classes), classes, tests)
