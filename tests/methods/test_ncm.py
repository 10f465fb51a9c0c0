"""The nearest mean, by distances computed one by one."""

from __future__ import annotations

import torch
from tests.support import tiny


def test_the_answer_is_the_class_whose_mean_is_nearest():
    learner, scenario = tiny.world("ncm")
    for task in scenario.tasks:
        learner.begin_task(task)
        learner.end_task(task)
    learner.eval()
    means = []
    for task in scenario.tasks:
        z = learner.features(torch.cat([task.train.x, task.val.x])).double()
        y = torch.cat([task.train.y, task.val.y])
        means += [z[y == c].mean(0) for c in range(2)]
    x = torch.cat([task.test.x for task in scenario.tasks])
    for z, answer in zip(learner.features(x).double(), learner.predict(x, None).argmax(1), strict=True):
        distances = [float((z - mean).square().sum()) for mean in means]
        assert int(answer) == distances.index(min(distances))


def test_a_score_is_minus_half_the_squared_distance_up_to_what_classes_share():
    learner, scenario = tiny.world("ncm")
    task = scenario.tasks[0]
    learner.begin_task(task)
    learner.end_task(task)
    z, scores = learner.eval().features(task.test.x), learner.predict(task.test.x, 0)
    wanted = -torch.cdist(z.double(), learner.statistics.means).square() / 2
    apart = (scores[:, 0] - scores[:, 1]).double() * learner.temperatures[0]
    torch.testing.assert_close(apart, wanted[:, 0] - wanted[:, 1], rtol=1e-3, atol=1e-4)
