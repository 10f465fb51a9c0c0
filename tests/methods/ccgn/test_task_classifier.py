"""The task classifier is a plain MLP on the features of all streams, and grows without losing what it knows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from lockgate.methods.ccgn.task_classifier import HIDDEN, TaskClassifier, for_classes

WIDTHS = (5, 5, 8)  # of each stream's features: later streams can be wider
BY_TASK, BY_CLASS = (1, 1, 1), (2, 3, 2)  # outputs of each task
KINDS = pytest.mark.parametrize("outputs", [BY_TASK, BY_CLASS], ids=["tasks", "classes"])


def grown(outputs, tasks=3):
    torch.manual_seed(0)
    classifier = TaskClassifier()
    for features, out in zip(WIDTHS[:tasks], outputs, strict=False):
        classifier.add_task(features, out)
    return classifier


def features_of_streams(tasks=3, images=7):
    """Full-width features of each stream, and which channels each can open: zero everywhere else."""
    rng = torch.Generator().manual_seed(1)
    open_ = [torch.rand(width, generator=rng) < 0.6 for width in WIDTHS[:tasks]]
    for mask in open_:
        mask[0], mask[1] = True, False
    return [torch.randn(images, len(mask), generator=rng) * mask for mask in open_], open_


def plain_mlp(classifier, features):
    """On the concatenated features of all streams."""
    hidden = torch.cat(features, dim=1) @ classifier.squeeze.weight.T + classifier.squeeze.bias
    return hidden.clamp(min=0) @ classifier.out.weight.T + classifier.out.bias


def answer(classifier, features, open_):
    """As the method calls it: past streams at their open channels, and which inputs those are."""
    past = [f[:, mask] for f, mask in zip(features[:-1], open_, strict=False)]
    columns = torch.nonzero(torch.cat([*open_[:-1], torch.zeros(0, dtype=torch.bool)])).flatten()
    nothing = torch.zeros(len(features[-1]), 0)
    return classifier(torch.cat([nothing, *past], dim=1), columns, features[-1])


@KINDS
@pytest.mark.parametrize("tasks", [1, 2])
def test_growth_keeps_every_weight_and_bias_it_had(outputs, tasks):
    classifier = grown(outputs, tasks)
    before = {name: value.clone() for name, value in classifier.state_dict().items()}
    classifier.add_task(WIDTHS[tasks], outputs[tasks])
    after = classifier.state_dict()
    assert before.keys() == after.keys() == {"squeeze.weight", "squeeze.bias", "out.weight", "out.bias"}
    inputs, known = sum(WIDTHS[:tasks]), sum(outputs[:tasks])
    assert torch.equal(after["squeeze.weight"][:, :inputs], before["squeeze.weight"])
    assert torch.equal(after["squeeze.bias"], before["squeeze.bias"])
    assert torch.equal(after["out.weight"][:known], before["out.weight"])
    assert torch.equal(after["out.bias"][:known], before["out.bias"])
    assert after["squeeze.weight"].shape == (HIDDEN, inputs + WIDTHS[tasks])
    assert after["out.weight"].shape == (known + outputs[tasks], HIDDEN)
    assert after["squeeze.weight"][:, inputs:].any(), "the new stream is heard from the start"


@KINDS
def test_old_outputs_stay_while_the_new_stream_is_silent(outputs):
    classifier = grown(outputs, 2)
    features, open_ = features_of_streams(2)
    before = answer(classifier, features, open_)
    classifier.add_task(WIDTHS[2], outputs[2])
    silent = torch.zeros(len(before), WIDTHS[2])
    after = answer(classifier, [*features, silent], [*open_, torch.ones(WIDTHS[2], dtype=torch.bool)])
    torch.testing.assert_close(after[:, : before.shape[1]], before)
    assert after.shape[1] == before.shape[1] + outputs[2]


@KINDS
@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_it_is_a_dense_mlp_on_the_full_width_features_of_all_streams(outputs, tasks):
    classifier = grown(outputs, tasks)
    features, open_ = features_of_streams(tasks)
    torch.testing.assert_close(answer(classifier, features, open_), plain_mlp(classifier, features))


def test_a_step_moves_what_a_dense_mlp_would_move():
    classifier = grown(BY_TASK)
    features, open_ = features_of_streams()
    target = torch.arange(len(features[0])) % 3
    dense = torch.autograd.grad(F.cross_entropy(plain_mlp(classifier, features), target), classifier.parameters())
    mine = torch.autograd.grad(F.cross_entropy(answer(classifier, features, open_), target), classifier.parameters())
    for a, b in zip(mine, dense, strict=True):
        torch.testing.assert_close(a, b)
    shut = torch.nonzero(~torch.cat(open_[:-1])).flatten()
    assert not mine[0][:, shut].any(), "channels that cannot open teach nothing"


@KINDS
def test_probabilities_of_tasks_sum_to_one(outputs):
    classifier = grown(outputs)
    by_task = classifier.by_task(torch.randn(9, sum(outputs)) * 5)
    assert by_task.shape == (9, 3)
    torch.testing.assert_close(by_task.exp().sum(1), torch.ones(9))


def test_with_one_output_per_task_they_are_the_softmax():
    outputs = torch.randn(9, 3) * 5
    torch.testing.assert_close(grown(BY_TASK).by_task(outputs), outputs.log_softmax(1))


def test_with_one_output_per_class_they_sum_the_classes_of_a_task():
    outputs = torch.randn(9, 7).double()
    by_task = grown(BY_CLASS).by_task(outputs)
    for row, found in zip(outputs.exp().tolist(), by_task.exp().tolist(), strict=True):
        truth = [sum(row[:2]), sum(row[2:5]), sum(row[5:])]
        assert found == pytest.approx([value / sum(row) for value in truth])


def test_large_outputs_stay_finite():
    outputs = torch.tensor([[1e4, -1e4, 0.0, 1e4, -1e4, 0.0, 5.0]])
    assert torch.isfinite(grown(BY_CLASS).by_task(outputs)).all()


def test_what_is_said_of_a_task_is_said_of_each_of_its_classes():
    tasks = torch.randn(9, 3).log_softmax(1)
    assert torch.equal(for_classes(tasks, [2, 3, 2]), tasks[:, [0, 0, 1, 1, 1, 2, 2]])
