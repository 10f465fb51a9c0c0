"""ContinualClassifier: arrays, tensors and data sets; the same model as the command's; the example in its words."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

import lessons
import lockgate
from lockgate import ContinualClassifier, classifier
from lockgate.engine.audit import audit_run
from lockgate.errors import CheckpointError, ConfigError, DataError, RunFolderError

QUICK: dict[str, Any] = {"width": 16, "epochs": 8, "batch_size": 8, "verbose": False}


def pairs(*names: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([lessons.images(n, 30, seed) for n in names]), np.repeat(names, 30)


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
    assert lessons.bits(one.path) == lessons.bits(two.path)
    assert one.tasks == ("task 1",)
    assert set(one.predict(x).tolist()) <= {3, 7}
    assert np.issubdtype(one.predict(x).dtype, np.integer)


def test_old_probabilities_are_bit_equal_after_another_lesson_and_saving(
    model: ContinualClassifier, tmp_path: Path
) -> None:
    x, _ = pairs("cat", "dog", "axe", "saw", seed=3)
    copy = ContinualClassifier.load(model.save(tmp_path / "copy"), **QUICK)
    before = model.predict_proba(x, "pets"), model.predict_proba(x, "tools")
    copy.learn(*pairs("tug", "ferry"))
    assert copy.tasks == ("pets", "tools", "task 3")
    for old, name in zip(before, ("pets", "tools"), strict=True):
        assert np.array_equal(copy.predict_proba(x, name)[:, :4], old)
    assert audit_run(copy.path).ok
    assert model.tasks == ("pets", "tools"), "the copy is another model"
    with pytest.raises(RunFolderError, match="exists already"):
        model.save(tmp_path / "copy")
    assert not list(tmp_path.glob(".*")), "nothing half-copied is left"


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
        ContinualClassifier.load(model.path, size=20).learn(*pairs("tug", "ferry"))
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
