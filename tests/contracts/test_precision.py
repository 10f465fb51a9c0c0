"""Mixed precision: what learns in bfloat16 is tested and promised in full precision."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from lockgate.app.audit import audit_run
from lockgate.methods import METHODS
from lockgate.runs.run import run


@pytest.fixture
def training_dtypes():
    """Types of what linear layers give while they train."""
    found = set()
    hook = register_module_forward_hook(
        lambda module, _, out: found.add(out.dtype) if module.training and isinstance(module, nn.Linear) else None
    )
    yield found
    hook.remove()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_two_tasks_in_bfloat16(method, tmp_path, training_dtypes):
    options = {"targets": "class"} if method in ("ccgn-episodic", "ccgn-generative") else {}
    summary = run(tiny.experiment(method, options=options, runtime={"precision": "bf16-mixed"}), tmp_path / "run")
    assert (torch.bfloat16 in training_dtypes) == METHODS[method].wrapped, "others train in full precision"
    assert len(summary["task_incremental"]["matrix"][-1]) == 2
    if method in tiny.GATED:
        assert summary["audit"]["ok"]
        assert audit_run(tmp_path / "run").ok
