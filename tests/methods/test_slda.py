"""Shrunken LDA against scikit-learn, numpy, and a case small enough for paper and pencil."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from tests.support import tiny

from lockgate.methods.statistics import Statistics


def solved(z: torch.Tensor, y: torch.Tensor, shrinkage: float) -> tuple[torch.Tensor, torch.Tensor]:
    learner, scenario = tiny.world("slda", shrinkage=shrinkage)
    learner.statistics = Statistics(z.shape[1], True)
    learner.statistics.add([(z, y)], int(y.max()) + 1)
    return learner.solve(scenario.tasks[0])


def test_two_classes_on_paper():
    """Class 0 at (0, +-1), class 1 at (4, +-1): variances 0 and 1, no covariance, means (0, 0) and (4, 0)."""
    z = torch.tensor([[0.0, 1.0], [0.0, -1.0], [4.0, 1.0], [4.0, -1.0]])
    z += torch.tensor([[0.5, 0.0], [-0.5, 0.0], [-0.5, 0.0], [0.5, 0.0]])  # variance 1/4, covariance 0 in all
    weight, bias = solved(z, torch.tensor([0, 0, 1, 1]), 0.5)
    # The classes' covariances, +1/2 and -1/2, cancel: Sigma = diag(1/4, 1), v = 5/8. With e = 1/2 the first variance is
    # 1/8 + 5/16 = 7/16; w_1 = (4 * 16/7, 0), b_1 = -4 * 4 * 16/7 / 2.
    torch.testing.assert_close(weight, torch.tensor([[0.0, 0.0], [64 / 7, 0.0]], dtype=torch.float64))
    torch.testing.assert_close(bias, torch.tensor([0.0, -128 / 7], dtype=torch.float64))


@pytest.mark.parametrize("shrinkage", [0.1, 0.5, 1.0])
def test_it_is_the_formula(shrinkage):
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((60, 5)) @ rng.standard_normal((5, 5)), np.arange(60) % 3
    z[:, 2] += y
    weight, bias = solved(torch.tensor(z), torch.tensor(y), shrinkage)
    means = np.stack([z[y == c].mean(0) for c in range(3)])
    sigma = (z - means[y]).T @ (z - means[y]) / 60
    inverse = np.linalg.inv((1 - shrinkage) * sigma + shrinkage * np.trace(sigma) / 5 * np.eye(5))
    np.testing.assert_allclose(weight, means @ inverse, rtol=1e-9)
    np.testing.assert_allclose(bias, -np.einsum("cd,de,ce->c", means, inverse, means) / 2, rtol=1e-9)


def test_it_is_scikit_learns():
    rng = np.random.default_rng(1)
    z, y = rng.standard_normal((90, 4)) @ rng.standard_normal((4, 4)), np.arange(90) % 3
    weight, bias = solved(torch.tensor(z), torch.tensor(y), 0.3)
    other = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3, priors=[1 / 3] * 3).fit(z, y)
    mine = z @ weight.numpy().T + bias.numpy()
    theirs = other.decision_function(z)
    np.testing.assert_allclose(mine - mine.mean(1, keepdims=True), theirs - theirs.mean(1, keepdims=True), rtol=1e-8)


def test_features_that_stand_still_do_no_harm():
    z = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    z[:, 1] = 7.0
    weight, bias = solved(z, torch.arange(20) % 2, 0.1)
    assert weight.isfinite().all()
    assert bias.isfinite().all()
    weight, _ = solved(torch.zeros(4, 2), torch.arange(4) % 2, 0.1)
    assert weight.isfinite().all()
