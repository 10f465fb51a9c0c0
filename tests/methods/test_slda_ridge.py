"""slda and a ridge regression, multiplied: against scikit-learn, plain numpy, and each of the two alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import Ridge
from tests.support import tiny

from lockgate.evaluation.exactness import audit, promise
from lockgate.methods.slda import SLDA
from lockgate.methods.slda_ridge import RIDGES, STILL, UNCHOSEN, ridge_weights
from lockgate.methods.statistics import Statistics
from lockgate.testing import walk


def learnt():
    learner, scenario = tiny.world("slda-ridge")
    for task in scenario.tasks:
        learner.begin_task(task)
        learner.end_task(task)
    return learner.eval(), scenario


def counted(z, y):
    seen = Statistics(z.shape[1], True)
    seen.add([(torch.tensor(z), torch.tensor(y))], int(y.max()) + 1)
    return seen


@pytest.mark.parametrize("ridge", RIDGES)
def test_it_is_scikit_learns_ridge_on_standardised_features(ridge):
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((60, 5)) @ rng.standard_normal((5, 5)) + 3, np.arange(60) % 3
    z[:, 2] += y
    weight, bias = ridge_weights(counted(z, y), ridge)
    deviation = z.std(0)
    u = (z - z.mean(0)) / (deviation + STILL * deviation.mean())
    other = Ridge(alpha=ridge * 5, solver="cholesky").fit(u, np.eye(3)[y])  # n cancels: a sum there, a mean here
    np.testing.assert_allclose(z @ weight.numpy().T + bias.numpy(), other.predict(u), rtol=1e-7, atol=1e-9)


def test_classes_count_the_same_whatever_their_size():
    """Of classes that lie about their means alike, the small one's images count as many times more."""
    rng = np.random.default_rng(1)
    about = rng.standard_normal((6, 3))
    about -= about.mean(0)
    right = np.array([2.0, 0, 0])
    few = np.concatenate([about, about + right])
    many = np.concatenate([about] * 5 + [about + right])
    seen = counted(few, np.repeat([0, 1], 6)), counted(many, np.repeat([0, 1], [30, 6]))
    (w, b), (v, c) = (
        ridge_weights(s, ridge * s.counts.sum().item()) for s, ridge in zip(seen, (0.1, 0.1), strict=True)
    )
    torch.testing.assert_close(w, v)
    torch.testing.assert_close(b, c)


def test_features_that_stand_still_do_no_harm():
    z = np.random.default_rng(2).standard_normal((20, 3))
    z[:, 1] = 7.0
    for given in (z, np.zeros((4, 2))):
        weight, bias = ridge_weights(counted(given, np.arange(len(given)) % 2), 0.1)
        assert weight.isfinite().all()
        assert bias.isfinite().all()


def test_answers_are_the_product_of_both():
    learner, scenario = learnt()
    x = torch.cat([task.test.x for task in scenario.tasks])
    z = learner.features(x).double()
    ridge, of_slda, of_ridge = learner.chosen
    first, second = SLDA.solve(learner, scenario.tasks[-1]), ridge_weights(learner.statistics, ridge)
    both = [F.linear(z, *pair) / t for pair, t in ((first, of_slda), (second, of_ridge))]
    wanted = (both[0].log_softmax(1) + both[1].log_softmax(1)).log_softmax(1)
    said = learner.predict(x, None).double() * learner.temperatures.double().log().mean().exp()
    torch.testing.assert_close(said.log_softmax(1), wanted, rtol=1e-4, atol=1e-4)


def test_what_tasks_have_chosen_is_averaged_kept_and_audited():
    *_, (learner, seen) = walk(tiny.experiment("slda-ridge"))
    assert learner.choices.shape == (len(seen), 3)
    assert all(any(np.isclose(a, r) for r in RIDGES) for a in learner.choices[:, 0].tolist())
    np.testing.assert_allclose(learner.chosen, np.exp(np.log(learner.choices.numpy()).mean(0)))
    made = [promise(learner, [*seen[: task.id], task]) for task in seen]
    assert audit(learner, seen, made).ok
    learner.choices[1, 2] *= 2
    assert any("choices" in name for name in audit(learner, seen, made).broken)


def test_a_first_class_alone_chooses_nothing():
    learner, _ = tiny.world("slda-ridge")
    learner.choices = torch.full((1, 3), float("nan"), dtype=torch.float64)
    assert learner.chosen == list(UNCHOSEN)
    learner.choices = torch.cat([learner.choices, torch.tensor([[0.3, 2.0, 0.5]], dtype=torch.float64)])
    np.testing.assert_allclose(learner.chosen, [0.3, 2.0, 0.5])
