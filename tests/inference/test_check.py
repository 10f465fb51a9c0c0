"""Agreement of a compiled form with its learner: rounding passes, gates on their threshold are named, faults found."""

from __future__ import annotations

import copy

import pytest
import torch

from lockgate.inference.check import Agreement, compare


@pytest.fixture
def given(learnt):
    learner, seen = learnt("ccgn-episodic")
    return learner, torch.cat([task.test.x for task in seen])


@pytest.mark.parametrize("task", [0, None])
def test_a_learner_agrees_with_itself(given, task):
    learner, images = given
    found = compare(learner, lambda x: learner.predict(x, task), images, task)
    assert found == Agreement(len(images), 0.0, 0, 0, 0)
    assert found.text().startswith(f"{len(images)} test images answered alike")


def test_rounding_passes_and_more_is_counted(given):
    learner, images = given
    slight = compare(learner, lambda x: learner.predict(x, 0) * (1 + 5e-6), images, 0)
    assert slight.ok
    assert 0 < slight.largest <= 1e-5
    wrong = compare(learner, lambda x: learner.predict(x, 0) + (x.float().mean((1, 2, 3)) > 128)[:, None], images, 0)
    assert not wrong.ok
    assert wrong.wrong == int((images.float().mean((1, 2, 3)) > 128).sum())
    assert "answered differently" in wrong.text()


def test_an_image_with_a_gate_on_its_threshold_is_no_fault(given):
    learner, images = copy.deepcopy(given[0]), given[1]
    gate = learner.gated["conv1"].gate(0)
    k = int(torch.nonzero(gate.seal)[0])
    with torch.no_grad():
        gate.excite.weight[k] = 0.0
        gate.excite.bias[k] = 1e-7
        other = copy.deepcopy(learner)
        other.gated["conv1"].gate(0).excite.bias[k] = -1e-7
    found = compare(learner, lambda x: other.predict(x, 0), images, 0)
    assert found.ok
    assert found.undecided > 0
    assert "on its threshold" in found.text()
    gate.excite.bias.data[k] = 1e-3
    assert not compare(learner, lambda x: other.predict(x, 0), images, 0).ok


def test_an_image_that_gets_another_class_by_such_a_gate_is_counted(given):
    learner, images = copy.deepcopy(given[0]), given[1]
    gate = learner.gated["conv3"].gate(0)
    with torch.no_grad():
        gate.excite.weight.zero_()
        gate.excite.bias.fill_(1e-7)
        learner.heads[0].weight.copy_(torch.tensor([[0.0], [1.0]]).expand(-1, learner.heads[0].in_features))
        learner.heads[0].bias.copy_(torch.tensor([1e-3, 0.0]))  # features are never negative: any make it the second
        other = copy.deepcopy(learner)
        other.gated["conv3"].gate(0).excite.bias.fill_(-1e-7)  # no features: the first class for all
        changed = int((other.predict(images, 0).argmax(1) != learner.predict(images, 0).argmax(1)).sum())
    found = compare(learner, lambda x: other.predict(x, 0), images, 0)
    assert found.changed == changed > 0
    assert found.ok
    assert not found.same_classes
    assert f"{changed} of them classified differently" in found.text()


def test_two_tasks_that_are_alike_to_the_learner_may_be_chosen_either_way(given):
    learner, images = copy.deepcopy(given[0]), given[1]

    def second_task(x: torch.Tensor) -> torch.Tensor:
        scores = learner.answers(x)["joint"].log_softmax(1)
        return torch.full_like(scores, float("-inf")).index_copy(
            1, torch.tensor([2, 3]), learner.predict(x, 1).log_softmax(1)
        )

    decided = compare(learner, second_task, images, None)
    assert decided.wrong > 0
    with torch.no_grad():
        learner.readout.weight.zero_()
        learner.readout.bias.zero_()
        learner.task_classifier.out.weight.zero_()
        learner.task_classifier.out.bias.zero_()
        for head in learner.companion.heads:
            head.weight.zero_()
            head.bias.zero_()
    alike = compare(learner, second_task, images, None)
    assert alike.ok
    assert alike.undecided == len(images)


def test_another_class_is_told_from_another_score():
    assert Agreement(images=10, largest=0.0, undecided=1, wrong=0, changed=0).same_classes
    other = Agreement(images=10, largest=0.0, undecided=1, wrong=0, changed=1)
    assert other.ok
    assert not other.same_classes
    assert not Agreement(images=10, largest=0.0, undecided=0, wrong=1, changed=0).same_classes
