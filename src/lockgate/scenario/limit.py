"""Fewer test images, for whoever cannot wait: some of each task's, the classes in turn."""

from __future__ import annotations

from dataclasses import replace

from lockgate.scenario.incremental import in_turn
from lockgate.scenario.split import Scenario
from lockgate.training.seeding import generator
from lockgate.types import Examples, Task


def limit_tests(scenario: Scenario, images: int, seed: int) -> Scenario:
    """``scenario`` with at most ``images`` test images a task, chosen by ``seed``; 0: with all."""
    if not images:
        return scenario

    def cut(task: Task) -> Task:
        if len(task.test) <= images:
            return task
        kept = in_turn(task.test.y, images, generator(seed, "eval", task.id))
        return replace(task, test=Examples(*task.test.batch(kept)))

    return replace(scenario, tasks=tuple(map(cut, scenario.tasks)))
