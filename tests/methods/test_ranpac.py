"""Random projections and ridge, against scikit-learn and the images themselves."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.linear_model import Ridge
from tests.support import tiny

from lockgate.methods.closed_form import read
from lockgate.methods.ranpac import RIDGES, best_ridge, ridge_weights
from lockgate.methods.statistics import Statistics


def learnt(**options):
    learner, scenario = tiny.world("ranpac", projections=30, **options)
    for task in scenario.tasks:
        learner.begin_task(task)
        learner.end_task(task)
    return learner.eval(), scenario


def stacked(learner, tasks, part):
    examples = [getattr(task, part) for task in tasks]
    h = torch.cat([learner.features(e.x) for e in examples]).double()
    y = torch.cat([e.y + 2 * task.id for e, task in zip(examples, tasks, strict=True)])
    return h, F.one_hot(y, 2 * len(tasks)).double()


def test_features_are_rectified_random_projections():
    learner, scenario = learnt()
    x = scenario.tasks[0].test.x[:5]
    torch.testing.assert_close(learner.features(x), (read(learner, x) @ learner.transform.matrix).clamp(min=0))
    assert learner.transform.matrix.shape == (read(learner, x).shape[1], 30)


def test_the_weights_are_a_ridge_regression_on_all_images_of_all_tasks():
    learner, scenario = learnt()
    parts = [stacked(learner, scenario.tasks, part) for part in ("train", "val")]
    h, target = (torch.cat(values) for values in zip(*parts, strict=True))
    alpha = learner.ridge * float((h.T @ h).diagonal().mean())
    other = Ridge(alpha=alpha, fit_intercept=False, solver="cholesky").fit(h.numpy(), target.numpy())
    np.testing.assert_allclose(learner.weight.numpy(), other.coef_, rtol=1e-3, atol=1e-5)


def test_the_ridge_errs_least_on_the_held_out_images_of_all_tasks():
    learner, scenario = learnt()
    (h, y), (held, wanted) = (stacked(learner, scenario.tasks, part) for part in ("train", "val"))
    scale = float((h.T @ h).diagonal().mean())
    errors = []
    for candidate in RIDGES:
        weight = torch.linalg.solve(h.T @ h + candidate * scale * torch.eye(30, dtype=torch.float64), h.T @ y)
        errors.append(float((held @ weight - wanted).square().sum()))
    assert learner.ridge == RIDGES[errors.index(min(errors))]
    assert errors.index(min(errors)) > 0, "no candidate but the first: the test would prove little"


def test_one_image_and_one_projection_on_paper():
    """h = 2, y = 1: W = 2 / (4 + lambda). Held out: h = 2, y = 1 as well, so the least lambda errs least."""
    seen, held_out = (Statistics(1, True) for _ in range(2))
    for part in (seen, held_out):
        part.add([(torch.tensor([[2.0]]), torch.tensor([0]))], 1)
    ridge = best_ridge(seen, held_out)
    assert ridge == RIDGES[0]
    weight = ridge_weights(seen, ridge)
    torch.testing.assert_close(weight, torch.tensor([[2 / (4 + 4 * ridge)]], dtype=torch.float64))
