"""A model folder: tasks one at a time, old answers bit-equal, stopped tasks resumed or dropped, nothing half."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from tests.support.folders import QUICK, bits, teach, write

from lockgate.app.audit import audit_run
from lockgate.app.inspect import inspect_model
from lockgate.app.model_dir import ModelFolder, read_model
from lockgate.app.trained import Answer, open_trained
from lockgate.errors import CheckpointError, ConfigError, DataError, RunFolderError, UnknownNameError
from lockgate.runs import checkpoint
from lockgate.runs.log import read_records
from lockgate.runs.run import resume

Tree = Callable[[Path], dict[str, str]]
PETS, TOOLS, SHIPS = {"cat": 12, "dog": 12}, {"axe": 30, "saw": 10}, {"ferry": 12, "tug": 12}


@pytest.fixture(scope="session")
def task_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task_folders")
    for name, classes in (("pets", PETS), ("tools", TOOLS), ("ships", SHIPS)):
        write(folder / name, classes)
    return folder


@pytest.fixture(scope="session")
def _model(task_folders: Path) -> Path:
    """A model of one task, and beside it the same model of two."""
    one = task_folders.parent / f"{task_folders.name}-one"
    teach(one, task_folders / "pets")
    two = Path(shutil.copytree(one, task_folders.parent / f"{task_folders.name}-two"))
    teach(two, task_folders / "tools")
    return one


@pytest.fixture
def one(_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(_model, tmp_path / "one"))


@pytest.fixture
def two(_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(str(_model).replace("-one", "-two"), tmp_path / "two"))


def logits(model: Path, task: int) -> torch.Tensor:
    x = torch.randint(0, 256, (5, 1, 8, 8), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    with torch.no_grad():
        return open_trained(model).learner.predict(x, task)


def stop(model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, saves: int = 3, **changes: Any) -> None:
    """Begin a task and stop it after some checkpoints, before the task ends."""
    real = checkpoint.save

    def failing(*arguments: Any, **named: Any) -> Any:
        nonlocal saves
        if saves == 0:
            raise KeyboardInterrupt
        saves -= 1
        return real(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", failing)
        with pytest.raises(KeyboardInterrupt):
            teach(model, folder, replace(QUICK, epochs=6, **changes))


def test_old_answers_are_bit_equal_after_later_tasks(one: Path, two: Path, task_folders: Path) -> None:
    before = logits(one, 0)
    assert torch.equal(before, logits(two, 0))
    middle = logits(two, 1)
    teach(two, task_folders / "ships")
    assert torch.equal(before, logits(two, 0))
    assert torch.equal(middle, logits(two, 1))
    assert audit_run(two).ok
    assert [task.name for task in read_model(two).tasks] == ["pets", "tools", "ships"]


def test_a_model_opens_as_something_that_answers(two: Path) -> None:
    trained = open_trained(two)
    assert trained.tasks == ("pets", "tools")
    assert trained.class_names == ("cat", "dog", "axe", "saw")
    assert trained.task_of_class == (0, 0, 1, 1)
    assert (trained.image_size, trained.greyscale) == (8, True)
    x = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    free = trained.probabilities(x)
    assert torch.allclose(free.sum(1), torch.ones(2))
    given = trained.probabilities(x, 1)
    assert torch.equal(given[:, :2], torch.zeros(2, 2))
    assert torch.equal(given[:, 2:], trained.learner.predict(x, 1).softmax(1))
    ranked = trained.ask(x, top=9)[0]
    assert [answer.confidence for answer in ranked] == sorted(free[0].tolist(), reverse=True)
    assert {answer.name for answer in trained.ask(x, 1, 9)[0]} == {"axe", "saw"}
    assert trained.ask(x, 0)[0][0] == Answer(*trained.ask(x, 0, 2)[0][0])
    with pytest.raises(UnknownNameError, match=r"Unknown task 'tool'\. Did you mean 'tools'"):
        trained.task_id("tool")


def test_the_model_keeps_probes_of_every_class_and_no_other_test_image(two: Path) -> None:
    for known, kept in read_model(two).probes():
        assert len(kept) <= 6
        assert set(kept.y.tolist()) == set(range(len(known)))
    assert read_model(two).tasks[1].images == (30, 10)


def test_the_audit_needs_no_old_data_and_notices_one_bit(two: Path, sign: Callable[[Path], None]) -> None:
    verdict = audit_run(two)
    assert (verdict.ok, verdict.logits, verdict.streams) == (True, 2, 4)
    end = ModelFolder(two).end()
    assert end is not None
    tensors = load_file(end.path / "learner.safetensors")
    tensors["heads.0.bias"][0] = torch.nextafter(tensors["heads.0.bias"][0], torch.tensor(torch.inf))
    save_file(tensors, end.path / "learner.safetensors")
    sign(end.path)
    assert "heads.0.bias" in audit_run(two).broken[0]


def test_without_probes_the_audit_compares_tensors_only_and_says_so(tmp_path: Path, task_folders: Path) -> None:
    model = tmp_path / "model"
    for name in ("pets", "tools"):
        teach(model, task_folders / name, probes=0)
    assert all(len(kept) == 0 for _, kept in read_model(model).probes())
    verdict = audit_run(model)
    assert (verdict.ok, verdict.logits) == (True, 0)
    assert "no probe images are kept" in verdict.text()
    found = inspect_model(model)
    assert len(found["tasks"]) == 2
    assert found["class_incremental"] == [found["tasks"][1]["class_incremental"]], "only the newest could be tested"


@pytest.mark.parametrize("saves", [1, 5])
def test_a_stopped_task_given_again_ends_with_the_bits_of_one_never_stopped(
    one: Path, task_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: int
) -> None:
    steady = Path(shutil.copytree(one, tmp_path / "steady"))
    teach(steady, task_folders / "tools", replace(QUICK, epochs=6))
    stop(one, task_folders / "tools", monkeypatch, saves)
    assert [task.name for task in read_model(one).tasks] == ["pets"], "as it was before"
    teach(one, task_folders / "tools", replace(QUICK, epochs=6))
    assert bits(one) == bits(steady)
    tools = [r["epoch"] for r in read_records(one / "records.jsonl") if r["event"] == "epoch" and r["task"] == 1]
    assert tools == list(range(6)), "no epoch twice"


def test_another_task_drops_the_stopped_one(
    one: Path, task_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = Path(shutil.copytree(one, tmp_path / "steady"))
    teach(steady, task_folders / "ships")
    stop(one, task_folders / "tools", monkeypatch)
    teach(one, task_folders / "ships")
    assert [task.name for task in read_model(one).tasks] == ["pets", "ships"]
    assert bits(one) == bits(steady)
    assert not list((one / "checkpoints").glob("*-fit"))


def test_a_stopped_task_with_another_schedule_begins_anew(
    one: Path, task_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = Path(shutil.copytree(one, tmp_path / "steady"))
    teach(steady, task_folders / "tools")
    stop(one, task_folders / "tools", monkeypatch)
    teach(one, task_folders / "tools")
    assert bits(one) == bits(steady)


def test_a_first_task_that_was_stopped_can_be_followed_by_any_other(
    tmp_path: Path, task_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    stop(model, task_folders / "pets", monkeypatch, seed=1)
    with pytest.raises(CheckpointError, match="has not learnt a task yet"):
        read_model(model)
    teach(model, task_folders / "tools", replace(QUICK, seed=2, width=6))
    assert read_model(model).experiment.seed == 2
    assert [task.name for task in read_model(model).tasks] == ["tools"]


def test_what_the_model_knows_it_is_not_taught_again(two: Path, task_folders: Path, tmp_path: Path, tree: Tree) -> None:
    before = tree(two)
    mixed = write(tmp_path / "mixed", {"bird": 5, "dog": 5})
    with pytest.raises(DataError, match=r"knows 'dog' already, from the task 'pets'.*locked"):
        teach(two, mixed)
    with pytest.raises(DataError, match=r"a task called 'pets' already.*--name"):
        teach(two, task_folders / "ships", name="pets")
    with pytest.raises(ConfigError, match="'size' was fixed as 8"):
        teach(two, task_folders / "ships", replace(QUICK, size=16))
    (mixed / "dog" / "000.png").write_text("broken")
    shutil.rmtree(mixed / "bird")
    (mixed / "dog").rename(mixed / "fox")
    with pytest.raises(DataError, match=r"fox/000\.png"):
        teach(two, mixed)
    assert tree(two) == before


def test_a_single_class_can_be_a_later_task_of_a_model_with_a_memory(one: Path, tmp_path: Path) -> None:
    forklifts = write(tmp_path / "forklifts", {"forklift": 12})
    with pytest.raises(DataError, match="one class, 'forklift'; wanted at least two"):
        teach(tmp_path / "new", forklifts)
    before = logits(one, 0)
    teach(one, forklifts)
    assert torch.equal(before, logits(one, 0))
    assert open_trained(one).class_names[-1] == "forklift"


def test_a_failed_first_task_leaves_nothing(tmp_path: Path) -> None:
    few = write(tmp_path / "few", {"a": 5, "b": 1})
    with pytest.raises(DataError, match=r"Too few images of b \(1\)"):
        teach(tmp_path / "model", few)
    assert not (tmp_path / "model").exists()
    (few / "b" / "000.png").write_text("broken")
    with pytest.raises(DataError):
        teach(tmp_path / "other", few)
    assert not (tmp_path / "other").exists()


def test_a_model_in_use_is_refused_at_once(one: Path, task_folders: Path) -> None:
    with ModelFolder(one).held(), pytest.raises(RunFolderError, match="in use by another process"):
        teach(one, task_folders / "tools")


def test_a_model_wants_a_folder_of_its_own(finished: Path, one: Path, task_folders: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="holds a run"):
        teach(finished, task_folders / "pets")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(RunFolderError, match="not empty and not a model"):
        teach(tmp_path / "full", task_folders / "pets")
    with pytest.raises(RunFolderError, match="is a model, and this is for runs"):
        resume(one)


def test_a_damaged_file_is_named_and_nothing_is_changed(one: Path, task_folders: Path, tree: Tree) -> None:
    end = ModelFolder(one).end()
    assert end is not None
    file = end.path / "probes.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    before = tree(one)
    for use in (read_model, inspect_model, audit_run, open_trained, lambda path: teach(path, task_folders / "tools")):
        with pytest.raises(CheckpointError, match=r"probes\.safetensors is damaged"):
            use(one)
    assert tree(one) == before


def test_a_model_without_memory_wants_the_task(tmp_path: Path, task_folders: Path) -> None:
    model = tmp_path / "model"
    settings = replace(QUICK, memory="none", options={})
    teach(model, task_folders / "pets", settings)
    x = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    assert open_trained(model).ask(x)[0][0].task == "pets", "with one task there is nothing to find"
    teach(model, task_folders / "tools", settings)
    with pytest.raises(UnknownNameError, match=r"keeps no memory.*'pets', 'tools'"):
        open_trained(model).ask(x)
    assert open_trained(model).ask(x, 1)[0][0].task == "tools"
    assert audit_run(model).ok


def test_a_model_can_remember_by_generators(tmp_path: Path, task_folders: Path) -> None:
    gan = {"gan": {"width": 0.02, "iterations": 2, "critic_steps": 1, "batch_size": 8}}
    for name in ("pets", "tools"):
        teach(tmp_path / "model", task_folders / name, replace(QUICK, memory="generative", options=gan))
    found = inspect_model(tmp_path / "model")
    assert found["memory"]["images"] == 0
    generators = open_trained(tmp_path / "model").learner.memory.generators
    assert len(generators) == 2
    assert found["bytes"]["memory"] == 4 * sum(p.numel() for p in generators.parameters())
    assert audit_run(tmp_path / "model").ok


def test_inspection_adds_up(two: Path) -> None:
    found = inspect_model(two)
    assert [task["classes"] for task in found["tasks"]] == [["cat", "dog"], ["axe", "saw"]]
    locked = {name: layer.locked.tolist() for name, layer in open_trained(two).learner.gated.items()}
    counted = {e["layer"]: (e["used"], e["free"]) for e in found["capacity"]}
    assert counted == {name: (rows.count(True), rows.count(False)) for name, rows in locked.items()}
    for task in found["tasks"]:
        assert 0 < task["macs"] < task["dense_macs"] * 1.5  # gates included
    end = two / "checkpoints" / found["checkpoint"]
    assert found["bytes"]["network"] + found["bytes"]["memory"] == (end / "learner.safetensors").stat().st_size
    assert found["memory"] == {"images": 20, "bytes": 20 * 64}


def test_the_description_of_a_model_is_plain_yaml(two: Path) -> None:
    described = yaml.safe_load((two / "model.yaml").read_text())
    assert described["data"]["image_size"] == 8
    assert described["runtime"]["threads"] == 1  # as it was made with: bits depend on it


def test_opening_a_model_and_inspecting_it_verify_each_file_once(two: Path) -> None:
    """Seen from below: what Python opens, checksums among it; safetensors maps the files it loads by itself."""
    opened: list[str] = []
    watching = True
    sys.addaudithook(lambda event, given: opened.append(str(given[0])) if watching and event == "open" else None)
    try:
        for use in (open_trained, inspect_model):
            opened.clear()
            use(two)
            for name in ("learner.safetensors", "probes.safetensors"):
                assert sum(path.endswith(name) and str(two) in path for path in opened) == 1, (use, name)
    finally:
        watching = False


def test_what_was_checked_is_what_answers_though_the_network_is_made_later(two: Path) -> None:
    opened = open_trained(two)
    x = torch.cat([examples.x for examples in opened.tests])
    before = open_trained(two).probabilities(x)
    file = next(iter(sorted(two.glob("checkpoints/*-task"))[-1:])) / "learner.safetensors"
    file.write_bytes(b"something else by now")
    assert "learner" not in opened.__dict__  # not made before it is asked
    assert torch.equal(opened.probabilities(x), before)
    with pytest.raises(CheckpointError, match="is damaged"):
        open_trained(two)
