"""Herding against the paper's own search, and the memory of exemplars. Every image says in its pixels which it is."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.memory.herding import ExemplarMemory, herding
from lockgate.types import Batch


def distances(features: torch.Tensor, chosen: list[int]) -> list[float]:
    """For every image: how far the mean of the chosen ones and it would be from the mean of all."""
    everyone = features.tolist()
    width = features.shape[1]
    mean = [sum(row[f] for row in everyone) / len(everyone) for f in range(width)]
    found = []
    for i, candidate in enumerate(everyone):
        if i in chosen:
            found.append(float("inf"))
            continue
        group = [everyone[j] for j in chosen] + [candidate]
        now = [sum(row[f] for row in group) / len(group) for f in range(width)]
        found.append(sum((a - b) ** 2 for a, b in zip(mean, now, strict=True)) ** 0.5)
    return found


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 15), st.integers(0, 2**32), st.booleans())
@settings(max_examples=150, deadline=None)
def test_herding_picks_what_a_search_over_all_images_picks(count, width, wanted, seed, unit):
    features = torch.randn(count, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if unit and width > 1:
        features = torch.nn.functional.normalize(features)
    picked = herding(features, wanted).tolist()
    assert len(picked) == len(set(picked)) == min(wanted, count)
    for k, index in enumerate(picked):
        far = distances(features, picked[:k])
        assert far[index] == pytest.approx(min(far), rel=1e-9, abs=1e-12)  # two images can be as good as each other


def test_herding_worked_by_hand():
    features = torch.tensor([[0.0], [1.0], [2.0], [9.0]])  # mean 3
    # 2 is nearest to 3; then (2 + x) / 2: 1, 1.5, 5.5 -> 1 misses by 1.5; then (3 + x) / 3: 1, 4 -> 9 misses by 1.
    assert herding(features, 4).tolist() == [2, 1, 3, 0]


def test_fewer_are_the_first_of_more_and_the_features_are_left_alone():
    features = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    before = features.clone()
    assert herding(features, 7).tolist() == herding(features, 30).tolist()[:7]
    assert torch.equal(features, before)


def test_herded_images_have_a_better_mean_than_random_ones():
    rng = torch.Generator().manual_seed(0)
    features = torch.nn.functional.normalize(torch.randn(500, 32, generator=rng).relu())
    herded = (features[herding(features, 20)].mean(0) - features.mean(0)).norm()
    anyhow = [(features[torch.randperm(500, generator=rng)[:20]].mean(0) - features.mean(0)).norm() for _ in range(50)]
    assert herded < min(anyhow)


# -- the memory --------------------------------------------------------------------------------------------------------


def exemplars(task: int, y: int, order: list[int]) -> Batch:
    """Images of one class whose pixels are its task, its label and their index."""
    x = torch.tensor([[task, y, index, 0] for index in order], dtype=torch.uint8).reshape(-1, 1, 2, 2)
    return Batch(x, torch.full((len(order),), y), torch.full((len(order),), task))


def held(memory: ExemplarMemory) -> dict[tuple[int, int], list[int]]:
    """The indices kept of each class, in their order, read from the pixels."""
    found: dict[tuple[int, int], list[int]] = {}
    for (task, y, index, _), label, owner in zip(memory.x.flatten(1).tolist(), memory.y, memory.task, strict=True):
        assert (task, y) == (int(owner), int(label))
        found.setdefault((task, y), []).append(index)
    return found


@given(
    st.lists(st.lists(st.permutations(range(9)), min_size=1, max_size=3), min_size=1, max_size=4),
    st.lists(st.integers(0, 10), min_size=1, max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_shrinking_keeps_the_first_of_every_class(tasks, cuts):
    memory = ExemplarMemory(1000)
    truth = {}
    for t, classes in enumerate(tasks):
        for y, order in enumerate(classes):
            memory.add(exemplars(t, y, order))
            truth[t, y] = order
    for each in cuts:
        memory.reduce(each)
        truth = {name: order[:each] for name, order in truth.items()}
        assert held(memory) == {name: order for name, order in truth.items() if order}
    assert memory.kept_images == sum(map(len, truth.values()))
    assert memory.kept_bytes == 4 * memory.kept_images


def test_an_empty_memory_shrinks_to_nothing_and_can_be_filled_after():
    memory = ExemplarMemory(10)
    memory.reduce(3)
    assert memory.kept_images == 0
    memory.add(exemplars(0, 0, [4, 2]))
    memory.reduce(0)
    memory.add(exemplars(1, 0, [7]))
    assert held(memory) == {(1, 0): [7]}


def test_the_order_survives_a_checkpoint():
    memory, fresh = ExemplarMemory(10), ExemplarMemory(10)
    memory.add(exemplars(0, 0, [4, 2, 8]))
    memory.add(exemplars(0, 1, [1, 0]))
    fresh.load_state_dict(memory.state_dict())
    fresh.reduce(2)
    assert held(fresh) == {(0, 0): [4, 2], (0, 1): [1, 0]}
