"""Classes among all seen, image by image, of tasks of different sizes."""

from __future__ import annotations

import torch
from tests.support import tiny

from lockgate.methods.ccgn.targets import class_targets, first_classes
from lockgate.runs.build import build_learner
from lockgate.types import Examples

CLASSES = (3, 2, 4)


def network():
    torch.manual_seed(0)
    learner = build_learner(tiny.experiment("ccgn-episodic", options={"targets": "class"}), (3, 16, 16))
    for classes in CLASSES:
        learner.add_task(classes)
    return learner.eval()


def images(task, y):
    rng = torch.Generator().manual_seed(0)
    brightest = torch.randint(2, 256, (len(task), 3, 1, 1), generator=rng)
    x = (torch.rand(len(task), 3, 16, 16, generator=rng) * brightest).to(torch.uint8)
    return Examples(x, torch.tensor(y), torch.tensor(task))


def test_a_tasks_first_class_follows_all_classes_before_it():
    assert first_classes(network()).tolist() == [0, 3, 5]


def test_a_known_class_is_counted_behind_those_of_earlier_tasks():
    given = images(task=[0, 2, 1, 0, 2], y=[2, 3, 1, 0, 0])
    for known in (0, 2, 3):
        assert class_targets(network(), given, known).tolist() == [2, 8, 4, 0, 5]


@torch.no_grad()
def test_a_generated_image_has_the_class_that_its_learnt_tasks_head_sees_and_none_while_it_is_learnt():
    learner = network()
    tasks = [t for t in range(3) for _ in range(12)]
    given = images(tasks, [-1] * len(tasks))
    for t, head in enumerate(learner.heads):  # so that a head, as little trained as this, sees all its classes
        head.bias -= learner.logits(given.x, t).mean(0)
    seen = []
    for x, t in zip(given.x, tasks, strict=True):
        logits = learner.logits(x[None], t)[0].tolist()
        seen.append(sum(CLASSES[:t]) + logits.index(max(logits)))
    assert len(set(seen)) > 6, "heads see one class everywhere: the test would prove little"
    assert class_targets(learner, given, known=3).tolist() == seen
    assert class_targets(learner, given, known=2).tolist() == seen[:24] + [-1] * 12
    assert given.y.tolist() == [-1] * 36, "the images keep their labels"
