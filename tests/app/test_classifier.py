"""ContinualClassifier: arrays, tensors and data sets; the same model as the command's; the example in its words."""

from __future__ import annotations

import doctest
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support import folders
from torch.utils.data import Dataset, IterableDataset

import lockgate
from lockgate import ContinualClassifier
from lockgate.app import classifier, open_model
from lockgate.app.audit import audit_run
from lockgate.app.inspect import inspect_model
from lockgate.app.model_dir import Model
from lockgate.errors import CheckpointError, ConfigError, DataError, RunFolderError, UnknownNameError
from lockgate.runs import checkpoint

QUICK: dict[str, Any] = {"width": 16, "epochs": 8, "batch_size": 8, "verbose": False}
SHORT: dict[str, Any] = {**QUICK, "epochs": 3}


def pairs(*names: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([folders.images(n, 30, seed) for n in names]), np.repeat(names, 30)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ContinualClassifier:
    made = ContinualClassifier(tmp_path_factory.mktemp("classifier") / "model", **QUICK)
    return made.learn(*pairs("cat", "dog"), name="pets").learn(*pairs("axe", "saw"), name="tools")


def test_it_learns(model: ContinualClassifier) -> None:
    x, y = pairs("cat", "dog", "axe", "saw", seed=1)  # noise it has not seen
    assert model.tasks == ("pets", "tools")
    assert model.classes_.tolist() == ["cat", "dog", "axe", "saw"]
    assert model.score(x[:60], y[:60], task="pets") > 0.9
    assert model.score(x[60:], y[60:], task="tools") > 0.9
    assert model.score(x, y) > 0.7
    assert (model.predict_task(x) == np.repeat(["pets", "tools"], 60)).mean() > 0.7


def test_answers_agree_with_their_probabilities(model: ContinualClassifier) -> None:
    x, _ = pairs("cat", "saw", seed=2)
    found = model.predict_proba(x)
    assert found.shape == (60, 4)
    assert np.allclose(found.sum(1), 1, atol=1e-5)
    assert (model.predict(x) == model.classes_[found.argmax(1)]).all()
    given = model.predict_proba(x, task="tools")
    assert (given[:, :2] == 0).all()
    assert np.allclose(given.sum(1), 1, atol=1e-5)


def test_every_form_of_the_same_images_gives_the_same_answer(model: ContinualClassifier) -> None:
    x, y = pairs("cat", "dog")

    class Pairs(Dataset[Any]):
        def __len__(self) -> int:
            return len(x)

        def __getitem__(self, i: int) -> tuple[torch.Tensor, str]:
            return torch.from_numpy(x[i])[None], str(y[i])

    expected = model.predict_proba(x)
    for form in (torch.from_numpy(x), x[..., None], x[:, None], x / 255, torch.from_numpy(x)[:, None] / 255, list(x)):
        assert np.array_equal(model.predict_proba(form), expected)
    assert model.score(Pairs()) == model.score(x, y)


def test_a_data_set_teaches_what_its_arrays_teach_and_numbers_stay_numbers() -> None:
    x, _ = pairs("cat", "dog")
    y = np.repeat([7, 3], 30)
    pairs_ = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    short = {**QUICK, "epochs": 1}
    one, two = ContinualClassifier(**short).learn(x, y), ContinualClassifier(**short).learn(pairs_)
    assert folders.bits(one.folder) == folders.bits(two.folder)
    assert one.tasks == ("task 1",)
    assert set(one.predict(x).tolist()) <= {3, 7}
    assert np.issubdtype(one.predict(x).dtype, np.integer)


def test_old_probabilities_are_bit_equal_after_another_task_and_saving(
    model: ContinualClassifier, tmp_path: Path
) -> None:
    x, _ = pairs("cat", "dog", "axe", "saw", seed=3)
    copy = ContinualClassifier.load(model.save(tmp_path / "copy"), **QUICK)
    before = model.predict_proba(x, "pets"), model.predict_proba(x, "tools")
    copy.learn(*pairs("tug", "ferry"))
    assert copy.tasks == ("pets", "tools", "task 3")
    for old, name in zip(before, ("pets", "tools"), strict=True):
        assert np.array_equal(copy.predict_proba(x, name)[:, :4], old)
    assert audit_run(copy.folder).ok
    assert model.tasks == ("pets", "tools"), "the copy is another model"
    with pytest.raises(RunFolderError, match="exists already"):
        model.save(tmp_path / "copy")
    assert not list(tmp_path.glob(".*")), "nothing half-copied is left"


@contextmanager
def saves(monkeypatch: pytest.MonkeyPatch, most: int | None = None) -> Iterator[list[str]]:
    """Notes the checkpoints that are written, and stops the task instead of writing more than ``most``."""
    real, written = checkpoint.save, []

    def save(folder: Path, kind: checkpoint.Kind, *arguments: Any) -> checkpoint.Checkpoint:
        if len(written) == most:
            raise KeyboardInterrupt
        written.append(kind)
        return real(folder, kind, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", save)
        yield written


def test_a_stopped_first_task_goes_on_when_the_call_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pets = tmp_path / "model", pairs("cat", "dog")
    with saves(monkeypatch) as whole:
        steady = ContinualClassifier(tmp_path / "steady", **SHORT).learn(*pets)
    with saves(monkeypatch, 2), pytest.raises(KeyboardInterrupt):
        ContinualClassifier(path, **SHORT).learn(*pets)
    half = ContinualClassifier.load(path, **SHORT)
    assert half.tasks == ()
    with pytest.raises(CheckpointError, match=r"not learnt anything yet; call `learn` first"):
        half.predict(pets[0])
    with saves(monkeypatch) as rest:
        ContinualClassifier(path, **SHORT).learn(*pets)
    assert whole == ["fit", "fit", *rest], "it went on where it stood"
    assert folders.bits(path) == folders.bits(steady.folder)


def test_a_first_task_killed_before_its_first_checkpoint_can_be_given_again(
    model: ContinualClassifier, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    shutil.copy(model.folder / "model.yaml", tmp_path / "model")
    assert ContinualClassifier.load(tmp_path / "model", **SHORT).learn(*pairs("axe", "saw")).tasks == ("task 1",)


def test_a_task_that_ends_while_the_model_is_opened_leaves_no_mismatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, _ = pairs("cat", "dog")
    ContinualClassifier(tmp_path / "model", **SHORT).learn(x, np.repeat([3, 7], 30))
    real = open_model.read_model

    def slow(path: Path) -> Model:
        found = real(path)
        monkeypatch.undo()
        ContinualClassifier(path, **SHORT).learn(*pairs("axe", "saw"))
        return found

    monkeypatch.setattr(open_model, "read_model", slow)
    opened = ContinualClassifier(tmp_path / "model", **SHORT)
    assert opened.tasks == ("task 1",)
    assert opened.classes_.tolist() == [3, 7]
    assert opened.predict_proba(x).shape == (60, 2)
    assert ContinualClassifier(tmp_path / "model").classes_.tolist() == ["3", "7", "axe", "saw"]


def test_labels_are_scored_as_the_classes_they_name(tmp_path: Path) -> None:
    x, _ = pairs("cat", "dog")
    y = np.repeat([3, 7], 30)
    made = ContinualClassifier(**QUICK).learn(x, y, name="numbers")
    right = sum(int(found) == wanted for found, wanted in zip(made.predict(x), y, strict=True)) / 60
    assert right > 0.9
    assert (
        made.score(x, y) == made.score(x, y.astype(str)) == made.score(x, list(y.astype(str).astype(object))) == right
    )
    assert made.score(x, torch.from_numpy(y.astype(np.uint8))) == right
    assert made.score(x, y[::-1].copy()) == pytest.approx(1 - right), "classes are still told apart"
    made = ContinualClassifier.load(made.save(tmp_path / "copy"), **SHORT).learn(*pairs("axe", "saw"))
    assert made.classes_.tolist() == ["3", "7", "axe", "saw"]
    assert made.score(x, y, task="numbers") == right, "nothing was forgotten"
    assert made.score(x, y.astype(str), task="numbers") == right


@pytest.mark.parametrize("labels", ["cat", ["cat"], [["cat"]] * 60, ["cat"] * 59, [1.0] * 60, [True] * 60])
def test_labels_that_cannot_be_scored_are_refused(model: ContinualClassifier, labels: Any) -> None:
    x, _ = pairs("cat", "dog")
    with pytest.raises(DataError, match=r"Labels (have shape|are of type) .*; wanted"):
        model.score(x, labels)


def test_a_copy_is_whole_whatever_another_process_is_at(
    model: ContinualClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Path(shutil.copytree(model.folder, tmp_path / "busy"))
    with saves(monkeypatch, 2), pytest.raises(KeyboardInterrupt):
        ContinualClassifier(busy, **SHORT).learn(*pairs("tug", "ferry"))
    with (busy / "records.jsonl").open("a") as file:
        file.write('{"event": "ep')  # being written
    (busy / "checkpoints" / ".000099-fit.partial").mkdir()
    copy = ContinualClassifier.load(busy).save(tmp_path / "copies" / "copy")
    names = sorted(str(item.relative_to(copy)) for item in copy.rglob("*") if item.is_dir() or item.parent == copy)
    end = max(item.name for item in (model.folder / "checkpoints").glob("*-task"))
    assert names == ["checkpoints", f"checkpoints/{end}", "model.yaml", "records.jsonl"]
    assert (copy / "records.jsonl").read_bytes() == (model.folder / "records.jsonl").read_bytes()
    assert folders.bits(copy) == folders.bits(model.folder)
    assert audit_run(copy) == audit_run(model.folder)
    for path in (copy, busy):
        ContinualClassifier.load(path, **SHORT).learn(*pairs("tug", "ferry"))
        assert audit_run(path).ok
    assert folders.bits(copy) == folders.bits(busy), "it learns on as the model itself does"
    assert len(inspect_model(copy)["tasks"]) == 3


def test_a_copy_that_fails_leaves_nothing(model: ContinualClassifier, tmp_path: Path) -> None:
    broken = ContinualClassifier.load(shutil.copytree(model.folder, tmp_path / "broken"))
    records = broken.folder / "records.jsonl"
    content = records.read_bytes()
    records.write_bytes(content[:-9])
    with pytest.raises(CheckpointError, match=r"records\.jsonl has .* bytes, but had"):
        broken.save(tmp_path / "copies" / "copy")
    records.unlink()
    records.mkdir()
    with pytest.raises(RunFolderError, match=r"Cannot copy .*copy: .*then save again"):
        broken.save(tmp_path / "copies" / "copy")
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="Cannot copy"):
        model.save(tmp_path / "file" / "copy")
    assert not list((tmp_path / "copies").iterdir())


def test_it_leaves_torch_as_it_was(model: ContinualClassifier) -> None:
    x, y = pairs("cat", "dog")
    torch.manual_seed(5)
    before = torch.get_num_threads(), torch.get_rng_state()
    ContinualClassifier(**{**QUICK, "epochs": 1}).learn(x, y).predict(x)
    assert torch.get_num_threads() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_mistakes_are_explained(model: ContinualClassifier, tmp_path: Path) -> None:
    x, y = pairs("cat", "dog")
    fresh = ContinualClassifier(**QUICK)
    with pytest.raises(CheckpointError, match="call `learn` first"):
        fresh.predict(x)
    with pytest.raises(DataError, match="without labels"):
        fresh.learn(x)
    with pytest.raises(DataError, match="knows 'cat', 'dog' already"):
        model.learn(x, y)
    with pytest.raises(ConfigError, match="'size' was fixed"):
        ContinualClassifier.load(model.folder, size=20).learn(*pairs("tug", "ferry"))
    with pytest.raises(RunFolderError, match=r"no model\.yaml"):
        ContinualClassifier.load(tmp_path / "nowhere")


def test_the_example_in_its_documentation_runs() -> None:
    found = doctest.testmod(classifier)
    assert found.attempted > 5
    assert found.failed == 0


def test_importing_lockgate_stays_light() -> None:
    script = "import lockgate, sys; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
    with pytest.raises(AttributeError, match="nonsense"):
        lockgate.nonsense  # noqa: B018


def test_a_dataset_without_images_is_refused() -> None:
    empty = torch.utils.data.TensorDataset(torch.empty(0, 8, 8), torch.empty(0, dtype=torch.int64))
    with pytest.raises(DataError, match="Dataset is empty"):
        ContinualClassifier(verbose=False).learn(empty)


def test_images_of_two_sizes_are_refused(model: ContinualClassifier) -> None:
    sizes = [np.zeros((8, 8), np.uint8), np.zeros((9, 8), np.uint8)]
    with pytest.raises(DataError, match="differ in shape"):
        model.predict(sizes)
    with pytest.raises(DataError, match="differ in shape"):
        ContinualClassifier(verbose=False).learn(Listed(list(zip(sizes, ["a", "b"], strict=True))))


def test_one_image_is_not_taken_for_many(model: ContinualClassifier) -> None:
    with pytest.raises(DataError, match=r"looks like one image.*images\[None\]"):
        model.predict(np.zeros((8, 8, 3), np.uint8))


def test_a_dataset_that_can_only_be_run_through_teaches_too() -> None:
    x, y = pairs("cat", "dog")
    model = ContinualClassifier(**QUICK).learn(Running(list(zip(x, y, strict=True))))
    again = ContinualClassifier(**QUICK).learn(x, y)
    assert (model.predict_proba(x) == again.predict_proba(x)).all()


def test_a_task_may_be_given_by_its_number(model: ContinualClassifier) -> None:
    x, _ = pairs("cat", "dog")
    assert (model.predict_proba(x, task=0) == model.predict_proba(x, task=model.tasks[0])).all()
    with pytest.raises(UnknownNameError, match="Unknown task '9'"):
        model.predict(x, task=9)


class Listed(Dataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


class Running(IterableDataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)
