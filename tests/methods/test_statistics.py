"""Sums over images, against the images themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lockgate.methods.statistics import Statistics

RNG = torch.Generator().manual_seed(0)
Z = torch.randn(30, 4, generator=RNG) + 3
Y = torch.arange(30) % 5


def filled(products: bool = True) -> Statistics:
    """Two tasks: classes 0 and 1, then 2, 3 and 4; in parts of unequal size."""
    made = Statistics(4, products)
    for first, classes in ((0, 2), (2, 3)):
        mine = (first <= Y) & (first + classes > Y)
        parts = zip(Z[mine].split(5), (Y[mine] - first).split(5), strict=True)
        made.add(parts, classes)
    return made


def test_means_and_covariance_are_those_of_all_images_at_once():
    found, z, y = filled(), Z.double().numpy(), Y.numpy()
    means = np.stack([z[y == c].mean(0) for c in range(5)])
    np.testing.assert_allclose(found.means.numpy(), means, rtol=1e-12)
    assert found.counts.tolist() == [6] * 5
    about = z - means[y]
    np.testing.assert_allclose(found.covariance().numpy(), about.T @ about / 30, atol=1e-12)


def test_more_images_of_the_newest_classes_count_as_if_they_had_come_with_the_others():
    again, at_once = Statistics(4, True), Statistics(4, True)
    again.add([(Z[:20], Y[:20])], 5)
    again.add([(Z[20:], Y[20:])], 5, again=True)
    at_once.add([(Z, Y)], 5)
    torch.testing.assert_close(again.covariance(), at_once.covariance())
    assert torch.equal(again.counts, at_once.counts)
    apart = Statistics(4, True)
    apart.add([(Z[:20], Y[:20])], 5)
    rest = Statistics(4, True)
    rest.add([(Z[20:], Y[20:])], 5)
    torch.testing.assert_close(apart.plus(rest).means, at_once.means)


def test_without_products_there_is_no_matrix():
    assert filled(products=False).products.numel() == 0
    assert filled(products=False).bytes == 8 * (5 + 20)
    assert filled().bytes == 8 * (5 + 20 + 16)


def test_what_is_loaded_has_its_own_number_of_classes():
    fresh, found = Statistics(4, True), filled()
    fresh.load_state_dict(found.state_dict())
    assert torch.equal(fresh.means, found.means)


def test_they_stay_exact_in_a_network_that_is_cast():
    found = filled().to(torch.float64)
    with torch.no_grad():
        assert found.to(memory_format=torch.channels_last).sums.dtype == torch.float64


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_the_order_of_parts_does_not_matter(order):
    made = Statistics(4, True)
    parts = [(Z[:15], Y[:15]), (Z[15:], Y[15:])]
    made.add([parts[i] for i in order], 5)
    torch.testing.assert_close(made.means, filled().means, rtol=1e-14, atol=1e-14)
