"""A learner on a network of another make: its compiled form is itself, and its exported file answers as it does."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny

from lockgate.app.export import export_run
from lockgate.inference.compile import compile_learner
from lockgate.runs.loading import load
from lockgate.runs.run import run

NETWORK = "tests.support.networks:Concatenated"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    run(tiny.experiment("ccgn-episodic", NETWORK), out)
    return out


def test_the_compiled_form_gives_the_same_bits(made):
    learner, scenario, _ = load(made)
    compiled, x = compile_learner(learner), scenario.tasks[0].test.x
    with torch.no_grad():
        for task in (0, 1, None):
            assert torch.equal(compiled.predict(x, task), learner.predict(x, task))
        assert compiled.answers(x).keys() == {"argmax", "joint"}


@pytest.mark.parametrize("format", ["onnx", "torch"])
@pytest.mark.parametrize("task", [0, None])
def test_an_exported_file_answers_alike(made, format, task, tmp_path):
    if format == "onnx":
        pytest.importorskip("onnxruntime")
    ending = ".onnx" if format == "onnx" else ".pt2"
    path, agreement = export_run(made, task, format, tmp_path / f"file{ending}")
    assert path.is_file()
    assert agreement.same_classes
