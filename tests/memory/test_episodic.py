"""The episodic memory. Every image says in its pixels which one it is, so nothing has to be taken on trust."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from lockgate.memory.episodic import EpisodicMemory, shares
from lockgate.types import Examples, Task

CLASSES = 3

amounts = st.lists(st.integers(0, 30), min_size=1, max_size=8)
runs = st.lists(st.integers(1, 30), min_size=1, max_size=6)  # images of each task


def make_task(task: int, count: int) -> Task:
    """Images of four pixels: task, two digits of the index, label."""
    index = torch.arange(count)
    y = index * 7 % CLASSES
    x = torch.stack([torch.full((count,), task), index // 256, index % 256, y], 1).reshape(count, 1, 2, 2)
    train = Examples(x.to(torch.uint8), y, torch.full((count,), task))
    return Task(task, tuple(range(task * CLASSES, (task + 1) * CLASSES)), train, train, train)


def names(examples: Examples) -> list[tuple[int, int]]:
    """(task, index) of each image, read from its pixels."""
    return [(int(task), int(high) * 256 + int(low)) for task, high, low, _ in examples.x.flatten(1).tolist()]


def filled(capacity: int, counts: list[int], seed: int = 0) -> EpisodicMemory:
    memory = EpisodicMemory(capacity)
    for t, count in enumerate(counts):
        memory.end_task(make_task(t, count), torch.Generator().manual_seed(seed + t))
    return memory


# -- how many ----------------------------------------------------------------------------------------------------------


def one_at_a_time(available: list[int], capacity: int) -> list[int]:
    """Deal places like cards: always to the poorest task that has an image left, the earliest of them."""
    sizes = [0] * len(available)
    for _ in range(min(capacity, sum(available))):
        wanting = [t for t in range(len(sizes)) if sizes[t] < available[t]]
        sizes[min(wanting, key=lambda t: (sizes[t], t))] += 1
    return sizes


@given(amounts, st.integers(0, 120))
@settings(max_examples=300, deadline=None)
@example([10, 10, 10, 10, 1], 17)  # what the small task leaves comes after a division with a remainder
def test_shares_are_what_dealing_one_image_at_a_time_gives(available: list[int], capacity: int):
    assert shares(available, capacity) == one_at_a_time(available, capacity)


@given(amounts, st.integers(0, 120))
@settings(max_examples=300, deadline=None)
@example([10, 10, 10, 10, 1], 17)
def test_shares_use_the_whole_capacity_as_equally_as_can_be(available: list[int], capacity: int):
    sizes = shares(available, capacity)
    assert sum(sizes) == min(capacity, sum(available))
    assert all(0 <= size <= most for size, most in zip(sizes, available, strict=True))
    for poor, most in zip(sizes, available, strict=True):
        assert poor == most or max(sizes) <= poor + 1  # nobody who could have more is behind by two
    assert sizes == shares(tuple(available), capacity)


@given(st.integers(1, 12), st.integers(0, 200))
@settings(deadline=None)
def test_where_images_abound_each_task_has_its_part_and_the_earliest_have_the_remainder(tasks: int, capacity: int):
    each, extra = divmod(capacity, tasks)
    assert shares([1000] * tasks, capacity) == [each + 1] * extra + [each] * (tasks - extra)


def test_shares_worked_by_hand():
    assert shares([100, 100, 100], 10) == [4, 3, 3]
    assert shares([2, 100, 100], 10) == [2, 4, 4]
    assert shares([100, 1, 100], 10) == [5, 1, 4]
    assert shares([3, 4], 10) == [3, 4]
    assert shares([5, 5, 5], 2) == [1, 1, 0]
    assert shares([], 10) == []


# -- which ones --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [7, 10, 500])
def test_exactly_c_images_are_kept_after_every_task_though_the_tasks_do_not_divide_c(capacity: int):
    memory = EpisodicMemory(capacity)
    for t in range(6):
        memory.end_task(make_task(t, 600), torch.Generator().manual_seed(t))
        each, extra = divmod(capacity, t + 1)
        assert memory.kept_images == len(memory.examples) == len(memory.x) == capacity
        assert torch.bincount(memory.task).tolist() == [each + (i < extra) for i in range(t + 1)]
        assert memory.x.dtype == torch.uint8
        assert memory.x.shape[1:] == (1, 2, 2)


@given(st.integers(1, 40), runs, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_whatever_the_sizes_the_memory_is_full_honest_and_only_ever_shrinks(capacity: int, counts: list[int], seed):
    memory = EpisodicMemory(capacity)
    before: set[tuple[int, int]] = set()
    for t, count in enumerate(counts):
        held = Counter(task for task, _ in before)
        memory.end_task(make_task(t, count), torch.Generator().manual_seed(seed + t))
        kept = names(memory.examples)
        assert len(kept) == len(set(kept)) == min(capacity, sum(counts[: t + 1]))  # full, nothing twice
        assert kept == sorted(kept)  # by task
        assert {name for name in kept if name[0] < t} <= before
        assert all(index < counts[task] for task, index in kept)
        assert memory.task.tolist() == [task for task, _ in kept]
        assert memory.y.tolist() == memory.x.flatten(1)[:, 3].tolist()
        sizes = Counter(task for task, _ in kept)
        assert [sizes[i] for i in range(t + 1)] == shares([*(held[i] for i in range(t)), count], capacity)
        before = set(kept)


def test_a_task_with_fewer_images_than_its_share_keeps_them_all_and_leaves_the_rest_to_others():
    memory = filled(20, [4, 50, 50])
    assert torch.bincount(memory.task).tolist() == [4, 8, 8]
    assert [index for task, index in names(memory.examples) if task == 0] == [0, 1, 2, 3]


def test_with_fewer_places_than_tasks_the_earliest_tasks_keep_one_image_each():
    memory = filled(3, [20] * 5)
    assert torch.bincount(memory.task, minlength=5).tolist() == [1, 1, 1, 0, 0]


def test_the_same_seed_keeps_the_same_images_and_another_seed_others():
    once, again, other = filled(20, [100, 100]), filled(20, [100, 100]), filled(20, [100, 100], seed=50)
    assert names(once.examples) == names(again.examples)
    assert names(once.examples) != names(other.examples)


def test_the_choice_does_not_touch_torchs_own_generator():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    memory = filled(20, [100, 100])
    memory.draw(make_task(2, 30).train, torch.tensor([5, 5, 5]), torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), before)


def test_every_image_is_as_likely_to_be_kept_as_any_other_when_new_and_when_the_task_shrinks():
    seen: Counter[tuple[int, int]] = Counter()
    for seed in range(300):
        seen.update(names(filled(10, [20, 20], seed=1000 * seed).examples))
    assert set(seen) == {(task, index) for task in range(2) for index in range(20)}
    # 5 of 20 each time: 75 of 300, with a standard deviation of 7.5
    assert all(75 - 38 < count < 75 + 38 for count in seen.values())


def test_what_is_kept_is_a_copy_and_holds_on_to_nothing_else():
    task = make_task(0, 1000)
    memory = EpisodicMemory(10)
    memory.end_task(task, torch.Generator().manual_seed(0))
    before = names(memory.examples)
    task.train.x.zero_()
    assert names(memory.examples) == before
    assert memory.x.untyped_storage().nbytes() == memory.kept_bytes


# -- rehearsal ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 25), min_size=3, max_size=3), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_draw_gives_the_counts_asked_past_from_the_buffer_current_from_its_data_in_order(counts: list[int], seed: int):
    memory = filled(9, [30, 30])
    kept = set(names(memory.examples))
    current = make_task(2, 6).train
    drawn = memory.draw(current, torch.tensor(counts), torch.Generator().manual_seed(seed))
    assert drawn.task.tolist() == [t for t, count in enumerate(counts) for _ in range(count)]
    assert drawn.x.dtype == torch.uint8
    assert drawn.y.tolist() == drawn.x.flatten(1)[:, 3].tolist()
    for (task, index), said in zip(names(drawn), drawn.task.tolist(), strict=True):
        assert task == said
        assert index < 6 if task == 2 else (task, index) in kept
    assert kept == set(names(memory.examples))  # drawing takes nothing out


def test_enough_draws_reach_every_image_and_a_seed_decides_them():
    memory = filled(8, [30, 30])
    current = make_task(2, 5).train
    counts = torch.tensor([60, 60, 60])
    once, again, other = (memory.draw(current, counts, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert set(names(once)) == set(names(memory.examples)) | set(names(current))
    assert names(once) == names(again)
    assert names(once) != names(other)


def test_the_first_task_is_drawn_from_its_own_data():
    drawn = EpisodicMemory(5).draw(make_task(0, 4).train, torch.tensor([20]), torch.Generator().manual_seed(0))
    assert set(names(drawn)) == {(0, index) for index in range(4)}


def test_all_is_everything_kept_then_the_current_data():
    current = make_task(2, 5).train
    memory = filled(8, [30, 30])
    assert names(memory.all(current)) == names(memory.examples) + names(current)
    assert names(EpisodicMemory(8).all(current)) == names(current)


def test_real_images_do_not_change_so_one_draw_is_enough_and_nothing_is_trained():
    memory = EpisodicMemory(8)
    assert not memory.fresh
    assert memory.preparation_steps == 0
    assert memory.preparation(make_task(0, 5)) is None
    assert not list(memory.parameters())


# -- what is saved and counted -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [[], [30], [30, 30, 30]], ids=["empty", "smaller", "other tasks"])
def test_a_saved_memory_goes_into_a_fresh_one_of_another_size_and_both_go_on_alike(begun: list[int]):
    memory, other = filled(11, [5, 30]), filled(4 if begun == [30] else 11, begun, seed=9)
    other.capacity = 11
    holder = nn.ModuleDict({"memory": other})  # as part of a learner, under a prefix
    holder.load_state_dict({f"memory.{name}": value.clone() for name, value in memory.state_dict().items()})
    for name, value in memory.state_dict().items():
        assert torch.equal(other.state_dict()[name], value)
        assert other.state_dict()[name].dtype == value.dtype
    for each in (memory, other):
        each.end_task(make_task(2, 30), torch.Generator().manual_seed(3))
    assert names(memory.examples) == names(other.examples)


def test_a_loaded_memory_shares_nothing_with_the_state_it_came_from():
    memory, other = filled(6, [30]), EpisodicMemory(6)
    state = memory.state_dict()
    other.load_state_dict(state)
    before = names(other.examples)
    state["x"].zero_()
    assert names(other.examples) == before


def test_five_hundred_cifar_images_are_the_papers_1_46_mebibytes():
    memory = EpisodicMemory(500)
    for t in range(3):
        x = torch.zeros(600, 3, 32, 32, dtype=torch.uint8)
        train = Examples(x, torch.zeros(600, dtype=torch.int64), torch.full((600,), t))
        memory.end_task(Task(t, (t,), train, train, train), torch.Generator().manual_seed(0))
        assert memory.kept_bytes == 500 * 3 * 32 * 32
        assert memory.kept_bytes / 2**20 == pytest.approx(1.46, abs=0.005)


def test_a_memory_that_has_seen_nothing_keeps_nothing():
    memory = EpisodicMemory(500)
    assert (memory.kept_images, memory.kept_bytes) == (0, 0)


def test_what_is_kept_is_shown_with_a_row_for_each_task():
    memory = EpisodicMemory(6)
    assert memory.shown() is None
    for t in range(2):
        x = torch.full((10, 1, 4, 4), 100 + t, dtype=torch.uint8)
        examples = Examples(x, torch.zeros(10, dtype=torch.int64), torch.full((10,), t))
        memory.end_task(Task(t, (t,), examples, examples, examples), torch.Generator().manual_seed(0))
    picture = memory.shown()
    assert picture is not None
    assert picture.shape == (1, 2 * 4, 16 * 4)
    assert (picture[0, :4, : 3 * 4] == 100).all()  # three images of each task
    assert (picture[0, 4:, : 3 * 4] == 101).all()
    assert (picture[0, :, 3 * 4 :] == 255).all()
