"""A learner on a network of another make: its compiled form is itself, and its exported file answers as it does.

With gates, and the task given, what the seals shut is cut, where the network allows it.
"""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny

from lockgate.app.export import export_run, write_onnx, write_torch
from lockgate.evaluation.macs import task_macs
from lockgate.inference.as_it_is import AsItIs, CutTask
from lockgate.inference.check import compare
from lockgate.inference.compile import compile_learner
from lockgate.layers.slots import SlotMap
from lockgate.runs.loading import load
from lockgate.runs.run import run

NETWORK = "tests.support.networks:Concatenated"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    run(tiny.experiment("ccgn-episodic", NETWORK), out)
    return out


@pytest.fixture(scope="module")
def solved_for(tmp_path_factory):
    """What `learn` answers photos by, on a network of another make: products of channels are in the file as well."""
    out = tmp_path_factory.mktemp("runs") / "closed"
    run(tiny.experiment("slda-bilinear", NETWORK), out)
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


@pytest.mark.parametrize("format", ["onnx", "torch"])
@pytest.mark.parametrize("task", [1, None])
def test_an_exported_closed_form_answers_alike(solved_for, format, task, tmp_path):
    if format == "onnx":
        pytest.importorskip("onnxruntime")
    ending = ".onnx" if format == "onnx" else ".pt2"
    path, agreement = export_run(solved_for, task, format, tmp_path / f"file{ending}")
    assert path.is_file()
    assert agreement.same_classes


@pytest.fixture
def sealed(tmp_path):
    """A learner with gates, of whose second task half of the channels are shut; and its images."""
    run(tiny.experiment("ccgn", "tests.support.networks:Shared", model={"gates": True}), tmp_path / "run")
    learner, scenario, _ = load(tmp_path / "run")
    for slot in learner.backbone.slots:
        if isinstance(slot, SlotMap) and slot.gated:
            for task in (0, 1):
                slot.gate(task).seal.fill_(True)
            slot.gate(1).seal[::2] = False
    return learner.eval(), scenario.tasks[1].test.x


def test_with_gates_a_task_is_cut_and_agrees(sealed):
    learner, images = sealed
    compiled = compile_learner(learner)
    assert isinstance(compiled.tasks[0], AsItIs), "nothing is shut there"
    assert isinstance(compiled.tasks[1], CutTask)
    assert compare(learner, lambda x: compiled.predict(x, 1), images, 1).same_classes
    whole, cut = (task_macs(learner, images, task) for task in (0, 1))
    assert whole["open"] == whole["dense"] == cut["dense"]
    assert cut["open"] < cut["dense"]
    assert cut["gates"] < whole["gates"]


@pytest.mark.parametrize("format", ["onnx", "torch"])
def test_a_cut_task_can_be_exported(sealed, format, tmp_path):
    if format == "onnx":
        pytest.importorskip("onnxruntime")
    learner, images = sealed
    write = write_onnx if format == "onnx" else write_torch
    answer = write(compile_learner(learner).tasks[1].eval(), images[:2], {}, tmp_path / "file")
    assert compare(learner, answer, images, 1).ok
