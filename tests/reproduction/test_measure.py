"""What is measured on a trained model after its run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml
from PIL import Image
from tests.support import tiny

from lockgate.errors import LockgateError
from lockgate.evaluation.gates import shares
from lockgate.evaluation.macs import task_macs
from lockgate.reproduction.measure import measurable, measure
from lockgate.runs.loading import load
from lockgate.runs.run import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("measured") / "run"
    run(tiny.experiment("ccgn-episodic"), out)
    return out


def test_macs_of_every_stage_from_the_last_model(folder: Path) -> None:
    found = measure(folder, "macs")
    learner, scenario, _ = load(folder)
    first, second = (task.test for task in scenario.tasks)

    def cost(stream: int, x) -> float:
        counts = task_macs(learner, x, stream)
        return (counts["open"] + counts["gates"]) / 1e6

    a, b = len(first), len(second)
    given = (cost(0, first.x) * a + cost(1, second.x) * b) / (a + b)
    assert found["task_incremental"] == pytest.approx([cost(0, first.x), given])
    every = sum((cost(0, x) + cost(1, x)) * n for x, n in ((first.x, a), (second.x, b))) / (a + b)
    readout = learner.readout.weight.numel() / 1e6  # every input of both streams for every class of both tasks
    assert readout > 0
    companion, companion_paper = (count / 1e6 for count in learner.companion.macs(learner.image_shape))
    assert found["class_incremental"][1] == pytest.approx(every + readout + companion)
    assert found["class_incremental_paper"][0] == found["task_incremental_paper"][0]
    assert found["class_incremental_paper"][1] > companion_paper > 0


def test_a_stage_costs_what_the_run_noted_then(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    noted = [value / 1e6 for value in summary["macs"]["task_incremental"]]
    assert measure(folder, "macs")["task_incremental"] == pytest.approx(noted)


def test_gates_and_the_images_that_trigger_one(folder: Path) -> None:
    found = measure(folder, "gates")
    assert found["layer"] == "conv1"
    ever, shared = shares(found["firing"])
    assert 0 < shared <= ever <= 1
    summary = json.loads((folder / "summary.json").read_text())
    assert found["firing"]["conv1"] == [pytest.approx(row, abs=1e-5) for row in summary["gates"]["conv1"]]
    learner, _, _ = load(folder)
    side = learner.image_shape[1]
    with Image.open(folder / "pictures" / "gates.png") as picture:
        assert picture.size == (2 * 8 * side + side // 2, 2 * side)


def test_a_measurement_is_made_once(folder: Path) -> None:
    made = measure(folder, "macs")
    kept = folder / "macs.json"
    kept.write_text(json.dumps({"of": made["of"], "made": "before"}))
    os.utime(kept, (0, 0))  # a checkout gives files any time
    try:
        assert measure(folder, "macs")["made"] == "before"
    finally:
        kept.unlink()


def test_of_a_run_that_was_made_anew_it_is_measured_anew(folder: Path) -> None:
    first = measure(folder, "macs")
    (folder / "macs.json").write_text(json.dumps({**first, "of": "another run", "task_incremental": []}))
    assert measure(folder, "macs") == first


def test_a_network_without_gates_has_none_to_look_at(tmp_path: Path) -> None:
    run(tiny.experiment("finetune"), tmp_path / "run")
    with pytest.raises(LockgateError, match="no gates"):
        measure(tmp_path / "run", "gates")


def test_a_model_that_cannot_be_loaded_is_not_measured(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("config.yaml", "summary.json"):
        (tmp_path / "empty" / name).write_bytes((folder / name).read_bytes())
    said: list[str] = []
    assert not measurable(tmp_path / "empty", "macs", said.append)
    assert len(said) == 1
    assert measurable(folder, "macs", said.append)
    assert len(said) == 1


def test_a_run_whose_data_are_not_here_is_not_measured(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    (moved / "macs.json").unlink(missing_ok=True)
    config = yaml.safe_load((moved / "config.yaml").read_text())
    (moved / "config.yaml").write_text(yaml.safe_dump({**config, "dataset": "mnist", "data_dir": str(tmp_path)}))
    said: list[str] = []
    assert not measurable(moved, "macs", said.append)
    assert str(moved) in said[0]
    assert "mnist" in said[0].lower()
