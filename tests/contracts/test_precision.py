"""Mixed precision: what learns in bfloat16 is tested and promised in full precision."""

from __future__ import annotations

import pytest
from tests.support import tiny

from lockgate.app.audit import audit_run
from lockgate.methods import METHODS
from lockgate.runs.run import run


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_two_tasks_in_bfloat16(method, tmp_path):
    options = {"targets": "class"} if method in ("ccgn-episodic", "ccgn-generative") else {}
    summary = run(tiny.experiment(method, options=options, runtime={"precision": "bf16-mixed"}), tmp_path / "run")
    assert len(summary["task_incremental"]["matrix"][-1]) == 2
    if method in tiny.GATED:
        assert summary["audit"]["ok"]
        assert audit_run(tmp_path / "run").ok
