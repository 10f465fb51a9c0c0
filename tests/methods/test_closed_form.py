"""What ncm, slda and ranpac share: a frozen network, one pass, answers of past tasks that never change."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from tests.support import tiny

from lockgate.config import AugmentConfig
from lockgate.evaluation.exactness import audit, logits, promise
from lockgate.evaluation.features import StreamFeatures
from lockgate.methods.closed_form import read
from lockgate.methods.protocols import Auditable, reading_once, report_of
from lockgate.runs.results import outcome
from lockgate.scenario import Scenario
from lockgate.testing import walk
from lockgate.types import Examples, Task

CHOOSING = ("slda-ridge", "slda-bilinear")
"""Whose tasks choose, so that it matters a little how classes are shared out."""
FIVE = {"tasks": 5, "data": {"synthetic_classes": 10, "synthetic_per_class": 12}}


@pytest.mark.parametrize("method", tiny.CLOSED_FORM)
@pytest.mark.parametrize("backbone", tiny.BACKBONES)
def test_past_answers_are_bit_equal_and_the_network_never_moves(method, backbone):
    first: dict[int, torch.Tensor] = {}
    promises, network = [], None
    for learner, seen in walk(tiny.experiment(method, backbone, **FIVE)):
        network = network or {k: v.clone() for k, v in learner.backbone.state_dict().items()}
        promises.append(promise(learner, seen))
        for task in seen:
            now = logits(learner, task)
            assert torch.equal(first.setdefault(task.id, now), now)
    assert audit(learner, seen, promises).ok
    assert isinstance(learner, Auditable)
    assert all(torch.equal(network[k], v) for k, v in learner.backbone.state_dict().items())
    learner.heads[1].weight.data.add_(1e-3)
    assert not audit(learner, seen, promises).ok, "an audit that cannot fail"


@pytest.mark.parametrize("part", ["statistics.sums", "statistics.counts", "backbone"])
def test_an_audit_looks_at_what_is_kept_of_a_task_and_at_the_network(part):
    *_, (learner, seen) = walk(tiny.experiment("slda"))
    made = [promise(learner, [*seen[: task.id], task]) for task in seen]
    assert audit(learner, seen, made).ok
    kept = next(learner.backbone.parameters()) if part == "backbone" else learner.get_buffer(part)
    kept.data[0] += 1e-3
    assert any(part.split(".")[-1] in name for name in audit(learner, seen, made).broken)


@pytest.mark.parametrize("method", tiny.CLOSED_FORM)
def test_answers_are_as_sure_as_they_are_right_on_images_held_out(method):
    learner, scenario = tiny.world(method)
    for task in scenario.tasks:
        learner.begin_task(task)
        learner.end_task(task)
    x = torch.cat([task.test.x for task in scenario.tasks])
    y = torch.cat([task.test.y + 2 * task.id for task in scenario.tasks])
    sure, said = learner.eval().predict(x, None).softmax(1).max(1)
    assert abs(float(sure.mean()) - float((said == y).double().mean())) < 0.25, "scores as they are would be far off"


def united(tasks, part):
    """The examples of all tasks as one task's."""
    parts = [getattr(task, part) for task in tasks]
    y = [examples.y + 2 * number for number, examples in enumerate(parts)]
    return Examples(torch.cat([e.x for e in parts]), torch.cat(y), torch.zeros(sum(map(len, parts)), dtype=torch.int64))


def scores(learner, x):
    """Before they are tempered: how sure answers are is of each task's own held-out images."""
    return learner.eval().predict(x, None) * learner.temperatures.log().mean().exp()


@pytest.mark.parametrize("method", [m for m in tiny.CLOSED_FORM if m not in CHOOSING])
def test_tasks_one_by_one_come_to_what_all_classes_at_once_come_to(method):
    many, scenario = tiny.world(method)
    for task in scenario.tasks:
        many.begin_task(task)
        many.end_task(task)
    one, _ = tiny.world(method)
    whole = Task(0, tuple(range(6)), *(united(scenario.tasks, part) for part in ("train", "val", "test")))
    one.begin_task(whole)
    one.input = many.input  # standardised by the first task's images, which are other ones
    one.end_task(whole)
    x = whole.test.x
    torch.testing.assert_close(scores(many, x), scores(one, x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(one.predict(x, 0), one.predict(x, None))


def test_features_are_all_layers_side_by_side_or_the_last():
    for backbone in tiny.BACKBONES:
        every, scenario = tiny.world("ncm", backbone)
        last, _ = tiny.world("ncm", backbone, features="last")
        x = scenario.tasks[0].test.x[:4]
        assert read(last.eval(), x).shape[1] == last.backbone.features
        widths = [layer.width for layer in every.backbone.layers.values()]
        found = read(every.eval(), x)
        assert found.shape[1] == sum(widths)
        assert torch.equal(found[:, -widths[-1] :], read(last, x)), "the last layer, pooled, is the features"


def test_mirror_images_count_where_images_may_be_mirrored():
    for flip in (False, True):
        learner, scenario = tiny.world("slda")
        learner.augment = AugmentConfig(random_flip=flip)
        task = scenario.tasks[0]
        learner.begin_task(task)
        learner.end_task(task)
        x, y = (torch.cat([getattr(part, kind) for part in (task.train, task.val)]) for kind in "xy")
        assert learner.statistics.counts.sum() == len(y) * (1 + flip), "those held out count as well, in the end"
        seen = torch.cat([x, x.flip(3)]) if flip else x
        labels = y.repeat(1 + flip)
        means = torch.stack([learner.eval().features(seen)[labels == c].double().mean(0) for c in (0, 1)])
        torch.testing.assert_close(learner.statistics.means, means, rtol=1e-5, atol=1e-6)


def test_no_image_is_kept_and_random_features_are_called_so():
    learner, scenario = tiny.world("slda")
    learner.begin_task(scenario.tasks[0])
    learner.end_task(scenario.tasks[0])
    report = report_of(learner)
    kept = learner.statistics.bytes
    assert report.memory == {"images": 0, "bytes": kept, "statistics": kept}
    assert "never trained" in report.notes[0]
    learner.backbone.given = True
    assert not report_of(learner).notes


@pytest.mark.parametrize("method", tiny.CLOSED_FORM)
def test_while_reading_once_the_network_runs_once_a_batch_and_answers_have_the_same_bits(method):
    learner, scenario = tiny.world(method)
    for task in scenario.tasks:
        learner.begin_task(task)
        learner.end_task(task)
    learner.eval()
    ran: list[int] = []
    next(iter(learner.backbone.layers.values())).register_forward_hook(lambda *_: ran.append(1))
    x, other = scenario.tasks[0].test.x[:4], scenario.tasks[1].test.x[:4]
    before = [learner.predict(x, task) for task in (0, 1, None)]
    ran.clear()
    with reading_once(learner):
        within = [learner.predict(x.clone(), task) for task in (0, 1, None)]
        assert len(ran) == 1
        learner.predict(other, 0)
        assert len(ran) == 2, "other images"
    learner.predict(x, 0)
    assert len(ran) == 3, "what was read within is forgotten"
    assert all(torch.equal(a, b) for a, b in zip(before, within, strict=True))


def test_what_is_recorded_of_a_task_reads_its_promised_images_anew():
    """A network that changes between what was promised and the audit is found, though batches are read once."""
    *_, (learner, seen) = walk(tiny.experiment("slda"))
    record = [{"promise": promise(learner, seen[: task.id + 1])} for task in seen[:-1]]
    scenario = Scenario(tuple(seen), tuple(map(str, range(6))), learner.image_shape)
    state = next(learner.backbone.parameters())
    ended = {"stage": len(seen) - 1, "last": True, "seed": 0, "features": StreamFeatures()}
    with torch.no_grad():
        state[0] += 1e-3
    broken = outcome(learner, scenario, record, **ended)["audit"]["broken"]
    assert any("logits" in name for name in broken)


def test_a_task_that_has_not_ended_has_no_answers_yet():
    learner, scenario = tiny.world("slda")
    learner.begin_task(scenario.tasks[0])
    learner.end_task(scenario.tasks[0])
    learner.begin_task(scenario.tasks[1])
    scores = learner.eval().predict(scenario.tasks[0].test.x[:3], None)
    assert scores.shape == (3, 4)
    assert (scores[:, 2:] == 0).all()
    assert dataclasses.asdict(learner.options)["features"] == "all"
