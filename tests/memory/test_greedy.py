"""Algorithm 1 of GDumb, against a direct transcription of its lines and by hand."""

from __future__ import annotations

from collections import Counter

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.memory.greedy import GreedyMemory, greedy
from lockgate.types import Examples


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_worked_by_hand():
    # k = 4. "a" fills the buffer; the first "b" is new and takes the place of an "a"; the second has 1 < 4/2 and does
    # so too; the third has 2 >= 2 and is refused, and so is another "a".
    held = greedy([], list("aaaaabbba"), 4, rng())
    assert [position for position in held if position >= 4] == [5, 6]
    assert len([position for position in held if position < 4]) == 2
    # k / 3 = 4/3: "c" is new, then has 1 < 4/3, then 2. Both times a class with most images loses one.
    kept = list("aabb")
    held = greedy(kept, list("ccc"), 4, rng())
    classes = Counter((kept + list("ccc"))[position] for position in held)
    assert sorted(classes.items()) == [("a", 1), ("b", 1), ("c", 2)]
    assert 6 not in held


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 4), max_size=60), st.integers(1, 20))
def test_counts_are_those_of_the_printed_algorithm(stream, capacity):
    counter: Counter[int] = Counter()
    classes: set[int] = set()
    for y in stream:  # the counts do not depend on which image of a class is dropped
        if y not in classes or counter[y] < capacity / len(classes):
            if sum(counter.values()) >= capacity:
                largest = max(counter.values())
                counter[next(c for c in counter if counter[c] == largest)] -= 1
            counter[y] += 1
            classes.add(y)
    held = greedy([], stream, capacity, rng())
    assert Counter(stream[position] for position in held) == +counter
    assert len(set(held)) == len(held) <= capacity


def test_the_memory_is_balanced_over_the_classes_of_all_tasks():
    memory = GreedyMemory(12)
    for number, classes in enumerate((2, 2, 2)):
        y = torch.arange(classes).repeat(30)
        x = torch.randint(256, (len(y), 1, 2, 2), generator=rng(number)).to(torch.uint8)
        memory.take(Examples(x, y, torch.full_like(y, number)), rng(number))
        assert memory.kept_images == 12
        of_class = Counter(zip(memory.task.tolist(), memory.y.tolist(), strict=True))
        assert set(of_class.values()) == {12 // (2 * (number + 1))}
