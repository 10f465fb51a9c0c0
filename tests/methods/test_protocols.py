"""Which method answers what, by a table written by hand: a run asks nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.support import tiny

from lockgate.methods import METHODS
from lockgate.methods.capacity import LayerCapacity
from lockgate.methods.protocols import (
    Auditable,
    FindsTask,
    HasGates,
    ParallelStreams,
    ReadsOnce,
    Reports,
    Restorable,
    SeveralAnswers,
    TaskReport,
    memory_use,
    report_of,
)
from lockgate.scenario import join

PROTOCOLS = {
    Restorable: set(METHODS),
    Auditable: set(tiny.AUDITED),
    HasGates: {"ccgn", "ccgn-episodic", "ccgn-generative"},
    SeveralAnswers: {"ccgn-episodic", "ccgn-generative", "icarl"},
    ParallelStreams: {"ccgn-episodic", "ccgn-generative"},
    FindsTask: {"ccgn-episodic", "ccgn-generative"},
    ReadsOnce: set(tiny.CLOSED_FORM),
    Reports: {*tiny.AUDITED, "dgm", "icarl"},
}
KEEPS = {
    "agem",
    "ccgn-episodic",
    "ccgn-generative",
    "cgen",
    "der++",
    "dgm",
    "er",
    "er-ace",
    "full-replay",
    "gdumb",
    "icarl",
    *tiny.CLOSED_FORM,
}


@pytest.mark.parametrize("method", list(METHODS))
def test_a_method_has_the_protocols_that_fit_it(method):
    learner, _ = tiny.world(method)
    assert {p for p in PROTOCOLS if isinstance(learner, p)} == {p for p, names in PROTOCOLS.items() if method in names}


@pytest.mark.parametrize("method", list(METHODS))
def test_memory_is_counted_for_those_that_keep_something(method):
    learner, scenario = tiny.world(method)
    learner.begin_task(join(scenario.tasks) if learner.joint else scenario.tasks[0])
    assert (memory_use(learner) is not None) == (method in KEEPS)


@pytest.mark.parametrize("method", list(METHODS))
def test_before_any_task_nothing_is_taken_and_no_image_kept(method):
    learner, _ = tiny.world(method)
    report = report_of(learner)
    assert sum(layer.used for layer in report.capacity) == 0
    assert (memory_use(learner) or {"images": 0})["images"] == 0


def test_what_does_not_report_has_nothing_to_say():
    assert report_of(object()) == TaskReport((), {}, (), (), None)


def test_a_report_of_memory_counts_before_the_memory_itself():
    kept = SimpleNamespace(kept_images=3, kept_bytes=12)
    assert memory_use(SimpleNamespace(memory=None)) is None
    assert memory_use(SimpleNamespace(memory=kept)) == {"images": 3, "bytes": 12}
    full = TaskReport([LayerCapacity("a", 1, 1, 1)], memory={"images": 0, "bytes": 99})
    assert memory_use(SimpleNamespace(memory=kept, report=lambda: full)) == {"images": 0, "bytes": 99}
    silent = SimpleNamespace(memory=kept, report=TaskReport)
    assert memory_use(silent) == {"images": 3, "bytes": 12}
