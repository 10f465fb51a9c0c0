"""Exported files answer uint8 images, one or more at a time, as the run does, and say what their outputs are."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from tests.support import folders, tiny

from lockgate.app import export
from lockgate.app.export import METADATA, export_run, session
from lockgate.app.trained import open_trained
from lockgate.cli.main import main
from lockgate.errors import ConfigError, ExactnessError, LockgateError
from lockgate.inference import compile as compiling
from lockgate.runs.run import run


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("session") / "run"
    torch.set_num_threads(1)
    run(tiny.experiment("ccgn-episodic"), out)
    return out


@pytest.mark.parametrize("task", [None, 1])
def test_onnx_answers_as_the_run_and_names_its_classes(made, tmp_path, task):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    path, agreement = export_run(made, task, "onnx", tmp_path / "net.onnx")
    assert agreement.ok
    trained = open_trained(made)
    answer = session(path)
    for size in (1, 5):
        images = trained.tests[0].x[:size]
        with torch.no_grad():
            wanted = trained.learner.predict(images, task)
        torch.testing.assert_close(answer(images), wanted, rtol=1e-5, atol=1e-5)
    about = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    classes = [f"class {c}" for c in (range(4) if task is None else (2, 3))]
    assert json.loads(about["classes"]) == classes
    assert json.loads(about["task_of_class"]) == ([0, 0, 1, 1] if task is None else [1, 1])
    assert json.loads(about["tasks"]) == ["class 0 class 1", "class 2 class 3"]
    assert about["task"] == ("found by the network" if task is None else "class 2 class 3")
    assert json.loads(about["channels"]) == ["red", "green", "blue"]
    assert about["input"].startswith("images: uint8 (batch >= 1, 3, ")
    assert "Image.Resampling.BOX" in about["resize"]
    scores = answer(trained.tests[0].x[:5])
    assert ("exponentials" in about["scores"]) == (task is None)
    shares = scores.exp() if "exponentials are probabilities" in about["scores"] else scores.softmax(1)
    torch.testing.assert_close(shares.sum(1), torch.ones(5)), "they are what the file says they are"
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"], "nothing else was left behind"


def test_torch_export_from_the_command(made, tmp_path, capsys):
    path = tmp_path / "net.pt2"
    assert main(["export", str(made), "--all", "--format", "torch", "--out", str(path)]) == 0
    assert "answered alike" in capsys.readouterr().out
    extra = {METADATA: ""}
    program = torch.export.load(path, extra_files=extra).module()
    assert json.loads(extra[METADATA])["inference"] == "argmax"
    trained = open_trained(made)
    with torch.no_grad():
        wanted = trained.learner.predict(trained.tests[1].x, None)
    torch.testing.assert_close(program(trained.tests[1].x), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", ["onnx", "torch"])
def test_streams_too_wide_to_be_fused_are_exported_one_by_one_and_answer_alike(made, tmp_path, monkeypatch, form):
    if form == "onnx":
        pytest.importorskip("onnxruntime")
    nodes = []
    for light in (compiling.LIGHT, 0):
        monkeypatch.setattr(compiling, "LIGHT", light)
        network = export.answering_network(open_trained(made), None)
        assert network.light == bool(light)
        x = torch.zeros(2, *open_trained(made).learner.image_shape, dtype=torch.uint8)
        graph = torch.export.export(network, (x,)).graph
        nodes.append(sum("conv2d" in str(node.target) for node in graph.nodes))
        path, agreement = export_run(made, None, form, tmp_path / f"{light}{export.ENDINGS[form]}")
        assert agreement.same_classes
        assert path.is_file()
    assert nodes[0] < nodes[1], "fused, the first layer of all streams is one convolution"


def test_a_model_is_exported_by_the_names_of_its_tasks(tmp_path, capsys):
    for name, classes in (("first", ("a", "b")), ("second", ("c", "d"))):
        folders.teach(tmp_path / "model", folders.write(tmp_path / name, dict.fromkeys(classes, 20)))
    model = open_trained(tmp_path / "model")
    for given, file, task in (
        (["--task", "second"], "task1.pt2", 1),
        (["--task", "1"], "task1.pt2", 1),
        (["--all"], "all.pt2", None),
    ):
        assert main(["export", str(tmp_path / "model"), *given, "--format", "torch"]) == 0
        assert "answered alike" in capsys.readouterr().out
        extra = {METADATA: ""}
        program = torch.export.load(tmp_path / "model" / file, extra_files=extra).module()
        about = json.loads(extra[METADATA])
        assert json.loads(about["classes"]) == (["a", "b", "c", "d"] if task is None else ["c", "d"])
        assert json.loads(about["tasks"]) == ["first", "second"]
        with torch.no_grad():
            wanted = model.learner.predict(model.tests[1].x, task)
        torch.testing.assert_close(program(model.tests[1].x), wanted, rtol=1e-5, atol=1e-5)
    assert main(["audit", str(tmp_path / "model")]) == 0
    assert main(["export", str(tmp_path / "model"), "--task", "third"]) == 2
    assert "Known: 'first', 'second'" in capsys.readouterr().err


def test_a_model_without_probes_cannot_be_checked_and_says_so(tmp_path):
    folders.teach(tmp_path / "model", folders.write(tmp_path / "one", {"a": 20, "b": 20}), probes=0)
    with pytest.raises(LockgateError, match="keeps no images"):
        export_run(tmp_path / "model", 0, "torch")


def test_a_file_that_answers_otherwise_never_gets_its_name(made, tmp_path, monkeypatch):
    writes = export.write_torch
    wrong = lambda *given: lambda x: writes(*given)(x) + 1.0  # noqa: E731
    monkeypatch.setattr(export, "write_torch", wrong)
    with pytest.raises(ExactnessError, match="was not written"):
        export_run(made, 0, "torch", tmp_path / "net.pt2")
    assert list(tmp_path.iterdir()) == []


def test_a_single_image_is_enough_to_check_on(tmp_path):
    folders.teach(tmp_path / "model", folders.write(tmp_path / "one", {"a": 20, "b": 20}), probes=1)
    _, agreement = export_run(tmp_path / "model", 0, "torch")
    assert agreement.ok


@pytest.mark.parametrize("out", [".", "config.yaml", "net.onnx"])
def test_nothing_but_a_file_of_the_format_is_written_over(made, out):
    before = (made / "config.yaml").read_bytes()
    with pytest.raises(ConfigError, match=r"must be a file whose name ends in \.pt2"):
        export_run(made, 0, "torch", made / out)
    assert (made / "config.yaml").read_bytes() == before


def test_what_there_is_not_is_refused(made, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="from 0 to 1"):
        export_run(made, 2, "torch", tmp_path / "net.pt2")
    with pytest.raises(LockgateError, match="Choose another --out"):
        export_run(made, 0, "torch", tmp_path / "nowhere" / "net.pt2")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(LockgateError, match="pip install"):
        export_run(made, 0, "onnx", tmp_path / "net.onnx")


def test_a_method_that_needs_the_task_has_no_network_for_all(tmp_path):
    run(tiny.experiment("ccgn", tasks=1, data={"synthetic_classes": 2}), tmp_path / "run")
    with pytest.raises(ConfigError, match="--task"):
        export_run(tmp_path / "run", None, "torch")
