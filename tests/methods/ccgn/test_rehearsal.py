"""Rows of a rehearsal batch worked by hand, and when images are drawn anew."""

from __future__ import annotations

import torch
from tests.support import tiny

from lockgate.config import AugmentConfig
from lockgate.methods.ccgn.rehearsal import Pool
from lockgate.types import Examples


def pool(sizes, y=None):
    """So many images of each task; each carries its number."""
    task = torch.tensor([t for t, size in enumerate(sizes) for _ in range(size)])
    x = torch.arange(len(task)).to(torch.uint8)[:, None, None, None]
    drawn = Examples(x, torch.zeros_like(task) if y is None else y, task)
    return Pool.of(x, drawn, task, torch.zeros(len(task), 2), len(sizes))


def test_a_pool_knows_where_each_task_begins_and_whether_some_image_has_no_name():
    made = pool([2, 0, 3])
    assert (made.starts.tolist(), made.sizes.tolist()) == ([0, 2, 2], [2, 0, 3])
    assert not made.nameless
    assert pool([1, 1], torch.tensor([0, -1])).nameless


def test_rows_in_evaluation_go_round_the_tasks_and_spread_over_their_images():
    # Row i is of task i mod 2, at the share i / 8 of its images: 4 of the first task, 2 of the second.
    assert pool([4, 2]).rows(8, at_random=False).tolist() == [0, 4, 1, 4, 2, 5, 3, 5]


def test_a_task_of_which_nothing_is_held_is_passed_over():
    made = pool([3, 0, 2])
    assert made.rows(8, at_random=False).tolist() == [0, 3, 0, 3, 1, 4, 2, 4]
    torch.manual_seed(0)
    rows = [made.rows(8, at_random=True) for _ in range(50)]
    assert {tuple(torch.bincount(made.target[part]).tolist()) for part in rows} == {(4, 0, 4)}
    assert set(torch.cat(rows).tolist()) == {0, 1, 2, 3, 4}


def test_at_random_the_first_task_changes_from_batch_to_batch_and_shares_differ_by_one_at_most():
    torch.manual_seed(0)
    made, firsts = pool([5, 5, 5]), set()
    for _ in range(60):
        tasks = made.target[made.rows(4, at_random=True)].tolist()
        firsts.add(tasks[0])
        assert sorted(tasks.count(t) for t in range(3)) == [1, 1, 2]
    assert firsts == {0, 1, 2}


def test_the_luckiest_draw_stays_inside_its_task(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda count: torch.full((count,), 1.0))  # rounding can come to this
    assert set(pool([2, 3]).rows(6, at_random=True).tolist()) == {1, 4}


def in_second(**options):
    learner, scenario = tiny.world("ccgn-episodic", buffer=10, **options)
    learner.begin_task(scenario.tasks[0])
    learner.end_task(scenario.tasks[0])
    learner.begin_task(scenario.tasks[1])
    return learner, scenario.tasks[1]


def test_images_are_drawn_as_many_of_each_task_rounded_up():
    learner, _ = in_second()
    x, drawn = learner.rehearsal.draw(7, torch.Generator().manual_seed(0))
    assert torch.bincount(drawn.task).tolist() == [4, 4]
    assert torch.equal(x, drawn.x), "nothing is augmented where nothing is asked for"


def test_a_pool_is_kept_for_the_task_or_where_images_vary_for_an_epoch():
    learner, task = in_second()
    first = learner.rehearsal.pool(epoch=0, wanted=20)
    assert learner.rehearsal.pool(epoch=1, wanted=20) is first
    assert len(first.x) == 10 + len(task.train)
    learner.augment = AugmentConfig(random_translate=2)
    second = learner.rehearsal.pool(epoch=1, wanted=20)
    assert learner.rehearsal.pool(epoch=1, wanted=20) is second
    assert second.sizes.tolist() == [10, 10]
    third = learner.rehearsal.pool(epoch=2, wanted=20)
    assert not torch.equal(third.x, second.x)
    learner.rehearsal.end_task()
    again = learner.rehearsal.pool(epoch=2, wanted=20)
    assert again is not third
    assert torch.equal(again.x, third.x), "an epoch's images follow from its seed"


def test_without_the_seal_past_features_are_computed_when_they_are_looked_up():
    learner, _ = in_second(seal=False)
    made = learner.rehearsal.pool(0, 20)
    assert made.past.numel() == 0
    rows = torch.tensor([0, 5, 12])
    past, target = learner.eval().rehearsal.looked_up(made, rows)
    with torch.no_grad():
        truth = [learner.backbone(learner.input(made.x[row : row + 1]), 0).features[0] for row in rows.tolist()]
    torch.testing.assert_close(past, torch.stack(truth))
    assert target.tolist() == [0, 0, 1]
