"""Warnings on poor answers: with numbers and a remedy, and none where all is well."""

from __future__ import annotations

from typing import Any

from lockgate.app.warn import warnings

NAMES, PROBES = ["pets", "tools", "ships"], [32, 32, 32]


def records(*rows: list[float] | None, given: float = 0.95) -> list[dict[str, Any]]:
    return [{"task": t, "task_incremental": [given], "class_incremental": row} for t, row in enumerate(rows)]


def test_a_good_model_is_not_warned_of() -> None:
    assert warnings(records([0.95], [0.94, 0.9]), NAMES, PROBES) == []
    assert warnings(records([0.95]), NAMES, PROBES) == []
    assert warnings(records(None, None), NAMES, PROBES) == [], "a model that must be told the task"


def test_a_new_task_that_is_not_found_is_named_with_both_numbers() -> None:
    (said,) = warnings(records([0.95], [0.93, 0.6]), NAMES, PROBES)
    assert "0.600 of the held-out images of 'tools'" in said
    assert "with it, 0.950" in said
    assert "--task" in said


def test_an_old_task_that_lost_is_named_with_what_it_had() -> None:
    (said,) = warnings(records([0.95], [0.9, 0.9], [0.7, 0.9, 0.9]), NAMES, PROBES)
    assert "'pets' went from 0.900 to 0.700 on its 32 probes" in said
    assert "`lockgate undo`" in said


def test_few_probes_prove_no_loss_and_none_are_not_counted() -> None:
    assert warnings(records([0.95], [0.8, 0.9], [0.5, 0.9, 0.9]), NAMES, [5, 32, 32]) == [], "one or two images"
    found = warnings(records([0.95], [0.9], [0.5, 0.9]), NAMES, [0, 32, 32])
    assert len(found) == 1
    assert "'tools' went from 0.900 to 0.500" in found[0], "the task without probes has no place in a row"
