"""ContinualClassifier among scikit-learn's tools: parameters, clones, copies, pickles, and a folder that vanishes."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import shutil
import weakref
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.utils.validation import check_is_fitted
from tests.support import folders, fresh_process

from lockgate import ContinualClassifier
from lockgate.errors import CheckpointError, ConfigError, DataError, RunFolderError

SHORT: dict[str, Any] = {
    "width": 8,
    "epochs": 3,
    "batch_size": 8,
    "probes": 2,
    "verbose": False,
}


def pairs(*names: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([folders.images(n, 20, seed) for n in names]), np.repeat(names, 20)


PETS, TOOLS = pairs("cat", "dog"), pairs("axe", "saw")


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> ContinualClassifier:
    return ContinualClassifier(tmp_path_factory.mktemp("estimator") / "model", **SHORT).learn(*PETS, name="pets")


@pytest.fixture
def model(taught: ContinualClassifier, tmp_path: Path) -> ContinualClassifier:
    """A model on disk that a test may change."""
    return ContinualClassifier(taught.save(tmp_path / "model"), **SHORT)


@pytest.fixture
def temporary(taught: ContinualClassifier) -> ContinualClassifier:
    return copy.deepcopy(taught)


# -- a folder that vanishes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["model", "temporary"])
def test_tasks_that_vanished_are_not_passed_over(kind: str, request: pytest.FixtureRequest) -> None:
    model: ContinualClassifier = request.getfixturevalue(kind)
    assert model.tasks == ("pets",)
    shutil.rmtree(model.folder)
    for use in (lambda: model.learn(*TOOLS), lambda: model.save("elsewhere"), lambda: copy.deepcopy(model)):
        with pytest.raises(
            RunFolderError, match=r"is gone, and with it what it had learnt: 'pets'\. Nothing was begun"
        ):
            use()
    assert not model.folder.exists(), "no new model was begun"
    assert model.tasks == ("pets",), "what is in memory still answers"
    assert len(model.predict(PETS[0])) == 40


def test_nor_is_another_model_in_its_place(model: ContinualClassifier) -> None:
    assert model.tasks == ("pets",)
    shutil.rmtree(model.folder)
    ContinualClassifier(model.folder, **SHORT).learn(*TOOLS, name="tools")
    with pytest.raises(RunFolderError, match="has lost 'pets': something else has changed or replaced it"):
        model.learn(*pairs("tug", "ferry"))
    assert ContinualClassifier.load(model.folder).tasks == ("tools",)


def test_nor_are_checkpoints_that_vanished(model: ContinualClassifier) -> None:
    assert model.tasks == ("pets",)
    shutil.rmtree(model.folder / "checkpoints")
    with pytest.raises(RunFolderError, match="has lost 'pets'"):
        model.learn(*TOOLS)
    with pytest.raises(RunFolderError, match="has lost 'pets'"):
        pickle.dumps(model)


def test_a_directory_that_changes_does_not_lose_the_model(
    model: ContinualClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = ContinualClassifier("model", **SHORT)
    assert relative.tasks == ("pets",)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir("other")
    assert relative.learn(*TOOLS).tasks == ("pets", "task 2")
    assert pickle.loads(pickle.dumps(relative)).tasks == ("pets", "task 2")
    assert not (tmp_path / "other" / "model").exists()


# -- copies and pickles --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["model", "temporary"])
def test_a_deep_copy_is_a_model_of_its_own(kind: str, request: pytest.FixtureRequest) -> None:
    model: ContinualClassifier = request.getfixturevalue(kind)
    expected = model.predict_proba(PETS[0])
    made = copy.deepcopy(model)
    assert made.folder != model.folder
    assert made.path is None
    assert made.get_params() == {**model.get_params(), "path": None}
    made.learn(*TOOLS)
    assert (made.tasks, model.tasks) == (("pets", "task 2"), ("pets",))
    assert ContinualClassifier.load(model.folder).tasks == ("pets",)
    assert np.array_equal(made.predict_proba(PETS[0], "pets")[:, :2], expected)


def test_a_temporary_folder_is_gone_with_its_only_object() -> None:
    model = ContinualClassifier(**{**SHORT, "epochs": 1}).learn(*PETS)
    other = copy.copy(model)
    first, second = model.folder, other.folder
    assert first != second
    assert other.tasks == model.tasks
    del model
    gc.collect()
    assert not first.parent.exists()
    assert second.exists()
    assert len(other.predict(PETS[0])) == 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_forked_child_leaves_the_folder_of_its_parent(taught: ContinualClassifier) -> None:
    temporary = copy.deepcopy(taught)  # not a fixture: pytest would hold on to it
    folder, gone = temporary.folder, weakref.ref(temporary)
    child = os.fork()
    if child == 0:
        del temporary
        gc.collect()
        os._exit(1 if gone() else 0)
    assert os.waitpid(child, 0)[1] == 0, "the child did not let go of its copy: the test would prove nothing"
    assert (folder / "model.yaml").exists()


def test_a_pickle_of_a_temporary_model_carries_it(temporary: ContinualClassifier, tmp_path: Path) -> None:
    expected, params = temporary.predict_proba(PETS[0]), temporary.get_params()
    joblib.dump(temporary, tmp_path / "model.joblib")
    folder = temporary.folder
    again = joblib.load(tmp_path / "model.joblib")
    assert again.folder != folder
    assert again.get_params() == params
    assert np.array_equal(again.predict_proba(PETS[0]), expected)
    assert folders.bits(again.folder) == folders.bits(folder)
    assert again.learn(*TOOLS).tasks == ("pets", "task 2")
    assert temporary.tasks == ("pets",)


def _answer() -> None:
    """What another process does with a pickle that it finds in its folder."""
    model = pickle.loads(Path("model.pickle").read_bytes())
    np.save("answers.npy", model.predict_proba(np.load("images.npy")))


def test_a_pickle_answers_in_another_process(temporary: ContinualClassifier, tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", PETS[0])
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(temporary))
    done = fresh_process.call(_answer, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "answers.npy"), temporary.predict_proba(PETS[0]))


def test_a_pickle_of_a_model_on_disk_is_its_path(model: ContinualClassifier) -> None:
    pickled = pickle.dumps(model.set_params(epochs=2))
    assert len(pickled) < 2000
    again = pickle.loads(pickled)
    assert again.folder == model.folder
    assert again.epochs == 2
    assert np.array_equal(again.predict_proba(PETS[0]), model.predict_proba(PETS[0]))
    shutil.rmtree(model.folder)
    with pytest.raises(RunFolderError, match=rf"The model in {model.folder} is gone, .*'pets'"):
        pickle.loads(pickled)


def test_a_model_that_has_learnt_nothing_is_copied_as_its_parameters(tmp_path: Path) -> None:
    fresh = ContinualClassifier(tmp_path / "model", **{**SHORT, "options": {"sparsity": 0.1}})
    for made in (copy.deepcopy(fresh), pickle.loads(pickle.dumps(fresh)), copy.copy(fresh)):
        assert made.tasks == ()
        assert {**made.get_params(), "path": fresh.path} == fresh.get_params()
        assert Path(made.path) == fresh.path
    assert copy.deepcopy(fresh).options is not fresh.options
    assert not (tmp_path / "model").exists()


# -- parameters ----------------------------------------------------------------------------------------------------


def test_a_clone_has_the_parameters_and_nothing_learnt(model: ContinualClassifier) -> None:
    made = clone(model)
    assert made.get_params() == {**model.get_params(), "path": None}, "at that path lives the model cloned"
    assert made.tasks == ()
    made.fit(*TOOLS)
    assert ContinualClassifier.load(model.folder).tasks == ("pets",)


def test_a_path_is_opened_when_first_needed(model: ContinualClassifier, tmp_path: Path) -> None:
    assert vars(ContinualClassifier(tmp_path / "model")) == ContinualClassifier(tmp_path / "model").get_params()
    assert ContinualClassifier(str(tmp_path / "model")).predict(PETS[0]).shape == (40,)
    ContinualClassifier(tmp_path / "new").set_params(epochs=1)
    assert not (tmp_path / "new").exists()


def test_a_learnt_model_does_not_change_its_path(model: ContinualClassifier, tmp_path: Path) -> None:
    assert model.tasks
    here = model.path
    model.set_params(path=tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"'path' must stay .*elsewhere.* instead; copy the model with `save`"):
        model.predict(PETS[0])
    assert model.set_params(path=here).tasks == ("pets",)
    fresh = ContinualClassifier(tmp_path / "one")
    assert fresh.tasks == ()
    assert fresh.set_params(path=here).tasks == ("pets",), "one that knows nothing may"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": "3"}, "'epochs' must be a whole number. Got '3' instead"),
        ({"epochs": 3.0}, "'epochs' must be a whole number. Got 3.0 instead"),
        ({"batch_size": True}, "'batch_size' must be a whole number. Got True instead"),
        ({"size": "8", "seed": None, "width": []}, "2 problems"),
        ({"memory": 1}, "'memory' must be text. Got 1 instead"),
        ({"backbone": ["mlp"]}, r"'backbone' must be text. Got \['mlp'\] instead"),
        ({"device": 0}, "'device' must be text. Got 0 instead"),
        ({"keep": 1.5}, "'keep' must be a whole number"),
        ({"probes": "2"}, "'probes' must be a whole number. Got '2' instead"),
        ({"probes": -1}, "'probes' must be at least 0"),
        ({"options": ["sparsity"]}, "'options' must be a group of keys"),
        ({"options": {"sparsity": "much"}}, "'options.sparsity' must be a number"),
        ({"path": 3}, "'path' must be text or a path. Got 3 instead"),
    ],
)
def test_parameters_of_a_wrong_type_are_named(wrong: dict[str, Any], message: str) -> None:
    model = ContinualClassifier(**{**SHORT, **wrong})
    assert "ContinualClassifier(" in repr(model)
    with pytest.raises(ConfigError, match=message):
        model.learn(*PETS)


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    model = ContinualClassifier(**{**SHORT, "epochs": np.int64(1), "probes": np.int32(1), "seed": np.uint8(4)})
    assert model.learn(*PETS).tasks == ("task 1",)


def test_its_name_says_what_it_is(model: ContinualClassifier, temporary: ContinualClassifier) -> None:
    assert repr(ContinualClassifier()) == "ContinualClassifier(): nothing learnt yet"
    settings = "width=8, epochs=3, batch_size=8, probes=2, verbose=False"
    where = repr(model.path)
    assert (
        repr(model) == f"ContinualClassifier(path={where}, {settings}): 1 task ('pets'), 2 classes, in {model.folder}"
    )
    assert repr(temporary).endswith("1 task ('pets'), 2 classes, in a temporary folder (`save` keeps it)")
    assert "ContinualClassifier" in model._repr_html_()
    assert "ContinualClassifier" in ContinualClassifier()._repr_html_()
    (model.folder / "model.yaml").write_text("")
    assert "cannot be opened" in repr(ContinualClassifier(model.path))


# -- fit, partial_fit and labels -----------------------------------------------------------------------------------


def test_partial_fit_is_learn_and_fit_begins_once(model: ContinualClassifier) -> None:
    assert model.partial_fit(*TOOLS, name="tools") is model
    assert model.tasks == ("pets", "tools")
    with pytest.raises(
        RunFolderError, match=r"`fit` begins with nothing, .* 2 tasks \('pets', 'tools'\).*`partial_fit`"
    ):
        model.fit(*pairs("tug", "ferry"))
    with pytest.raises(ConfigError, match=r"'name' must be text\. Got 3 instead"):
        model.partial_fit(*pairs("tug", "ferry"), name=3)  # type: ignore[arg-type]
    one, two = ContinualClassifier(**SHORT).fit(*PETS), ContinualClassifier(**SHORT).learn(*PETS)
    assert folders.bits(one.folder) == folders.bits(two.folder)


def test_a_model_that_knows_nothing_is_not_fitted(model: ContinualClassifier) -> None:
    fresh = ContinualClassifier(**SHORT)
    for use in (fresh.predict, fresh.predict_proba, fresh.predict_task):
        with pytest.raises(NotFittedError, match="call `learn` first"):
            use(PETS[0])
    with pytest.raises(CheckpointError):
        fresh.score(*PETS)
    with pytest.raises(NotFittedError):
        check_is_fitted(fresh)
    assert not hasattr(fresh, "classes_")
    assert not hasattr(fresh, "image_shape_")
    check_is_fitted(model)
    assert model.image_shape_ == (1, 8, 8)


@pytest.mark.parametrize("labels", [["a", 1], [1, "a"], [True, 1], [1, 1.5], ["a", None]])
def test_labels_of_two_kinds_are_refused(labels: list[Any]) -> None:
    for given in (labels * 20, tuple(labels * 20), np.array(labels * 20, dtype=object)):
        with pytest.raises(DataError, match=r"Labels are of type .*, .*; wanted all whole numbers or all text"):
            ContinualClassifier(**SHORT).learn(PETS[0], given)


def test_labels_of_one_kind_may_be_numpys_or_pythons() -> None:
    model = ContinualClassifier(**{**SHORT, "epochs": 1}).learn(PETS[0], [np.int64(3), 7] * 20)
    assert model.classes_.tolist() == [3, 7]


def test_scoring_names_labels_that_no_task_has(model: ContinualClassifier) -> None:
    x, y = pairs("cat", "tug", "ferry")
    with pytest.raises(DataError, match="No task has the labels 'ferry', 'tug'; wanted some of 'cat', 'dog'"):
        model.score(x, y)
    with pytest.raises(ValueError, match="No task has the labels '0', '1'"):
        model.score(PETS[0], np.repeat([0, 1], 20))


# -- scikit-learn's tools ------------------------------------------------------------------------------------------


def test_scikit_learns_tools_take_it(model: ContinualClassifier) -> None:
    assert is_classifier(model)
    x, y = PETS
    assert accuracy_score(y, model.predict(x)) == model.score(x, y) == get_scorer("accuracy")(model, x, y)
    of_truth = model.predict_proba(x)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    assert get_scorer("neg_log_loss")(model, x, y) == pytest.approx(np.log(of_truth).mean(), rel=1e-4)
    found = cross_validate(ContinualClassifier(**SHORT), x, y, cv=2, return_estimator=True, error_score="raise")
    assert all(made.tasks == ("task 1",) for made in found["estimator"])
    search = GridSearchCV(model, {"epochs": [1, 2]}, cv=2, error_score="raise").fit(x, y)
    assert search.best_estimator_.path is None, "the search did not learn in the folder of the model it was given"
    assert search.predict(x).shape == (40,)
    assert ContinualClassifier.load(model.folder).tasks == ("pets",)
