"""What the stored images are worth: against scikit-learn's own machine, and without touching anything."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.svm import SVC
from tests.support import tiny

from lockgate.evaluation import svm
from lockgate.evaluation.svm import rbf_svm, stored_images_svm, stratified
from lockgate.runs.run import run


def test_it_is_scikit_learns_rbf_machine_on_pixels_from_0_to_1():
    digits = load_digits()
    x, y = (digits.images * 15).astype(np.uint8), digits.target
    own = SVC(C=10, gamma="scale").fit(x[:300].reshape(300, -1) / 255, y[:300])
    wanted = own.predict(x[300:].reshape(-1, 64) / 255)
    images = torch.from_numpy(x)[:, None]
    answers = rbf_svm(images[:300], torch.from_numpy(y[:300]), images[300:])
    assert (answers.numpy() == wanted).mean() > 0.999
    assert (answers.numpy() == y[300:]).mean() > 0.85


def test_one_class_and_equal_images_are_answered():
    x = torch.zeros(4, 1, 2, 2, dtype=torch.uint8)
    assert rbf_svm(x, torch.full((4,), 3), x[:2]).tolist() == [3, 3]
    assert len(rbf_svm(x, torch.tensor([0, 1, 0, 1]), x)) == 4


@pytest.mark.parametrize("count", [7, 20, 100])
def test_a_stratified_choice_has_of_each_class_its_share(count):
    y = torch.cat([torch.full((size,), label) for label, size in enumerate((60, 30, 10))])
    y = y[torch.randperm(100, generator=torch.Generator().manual_seed(1))]
    chosen = stratified(y, count, torch.Generator().manual_seed(0))
    assert len(set(chosen.tolist())) == count
    for label, share in enumerate((0.6, 0.3, 0.1)):
        assert abs(int((y[chosen] == label).sum()) - share * count) <= 1
    assert torch.equal(chosen, stratified(y, count, torch.Generator().manual_seed(0)))


def learnt(world_of, method="er", **options):
    learner, scenario = world_of(method, tasks=3, **{"buffer": 12, **options})
    for task in scenario.tasks[:2]:
        learner.begin_task(task)
        learner.end_task(task)
    return learner, scenario.tasks[:2]


def test_accuracy_is_the_mean_over_tasks_among_all_classes_seen():
    learner, seen = learnt(tiny.world)
    kept = learner.memory.examples
    machine = SVC(C=10, gamma="scale").fit(kept.x.flatten(1).numpy() / 255, (kept.y + 2 * kept.task).numpy())
    rows = [
        (machine.predict(task.test.x.flatten(1).numpy() / 255) == task.test.y.numpy() + 2 * task.id).mean()
        for task in seen
    ]
    assert stored_images_svm(learner, seen, 0) == pytest.approx(float(np.mean(rows)))


def test_no_number_without_small_real_images_or_something_to_test_on(monkeypatch):
    learner, scenario = tiny.world("er", buffer=12)
    assert stored_images_svm(learner, scenario.tasks[:1], 0) is None, "nothing is kept yet"
    learner, seen = learnt(tiny.world)
    assert stored_images_svm(learner, seen, 0) is not None
    monkeypatch.setattr(svm, "MOST_STORED", 11)
    assert stored_images_svm(learner, seen, 0) is None
    monkeypatch.setattr(svm, "MOST_STORED", 12)
    monkeypatch.setattr(svm, "LARGEST_SIDE", 15)
    assert stored_images_svm(learner, seen, 0) is None
    plain, scenario = tiny.world("finetune")
    plain.begin_task(scenario.tasks[0])
    assert stored_images_svm(plain, scenario.tasks[:1], 0) is None


def test_it_draws_nothing_and_changes_nothing():
    learner, seen = learnt(tiny.world)
    state, before = torch.get_rng_state(), {name: value.clone() for name, value in learner.state_dict().items()}
    stored_images_svm(learner, seen, 0)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in learner.state_dict().items())


def test_a_run_records_it_and_learns_the_same_without_it(tmp_path, monkeypatch):
    from safetensors.torch import load_file

    from lockgate.runs import checkpoint

    asked = run(tiny.experiment("er"), tmp_path / "asked")
    assert asked["svm"] is not None
    monkeypatch.setattr("lockgate.runs.results.stored_images_svm", lambda *_: None)
    not_asked = run(tiny.experiment("er"), tmp_path / "not")
    assert not_asked["svm"] is None
    assert asked["class_incremental"] == not_asked["class_incremental"]
    one, two = (
        load_file(checkpoint.found(tmp_path / name / "checkpoints")[-1].path / "learner.safetensors")
        for name in ("asked", "not")
    )
    assert all(torch.equal(one[name], two[name]) for name in one)
