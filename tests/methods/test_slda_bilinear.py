"""slda-ridge, times a regression on products of channels: against loops, and each of the three alone."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from tests.support import tiny

from lockgate.evaluation.exactness import audit, promise
from lockgate.methods.protocols import report_of
from lockgate.methods.slda import SLDA
from lockgate.methods.slda_bilinear import RIDGE, UNCHOSEN, Bilinear, middle_map, sketch
from lockgate.methods.slda_ridge import ridge_weights
from lockgate.testing import walk


def learnt():
    learner, scenario = tiny.world("slda-bilinear", channels=4)
    for task in scenario.tasks:
        learner.begin_task(task)
        learner.end_task(task)
    return learner.eval(), scenario


def test_products_are_those_of_plain_loops():
    h = torch.randn(2, 5, 3, 2, generator=torch.Generator().manual_seed(0))
    part = Bilinear(5, 3)
    found = part(h)
    assert found.shape == (2, part.width) == (2, 6)
    for image, said in zip(h.numpy(), found.numpy(), strict=True):
        few = np.einsum("ck,chw->khw", part.mix.numpy(), image)
        products = [(few[i] * few[j]).mean() for i in range(3) for j in range(i, 3)]
        rooted = np.sign(products) * np.sqrt(np.abs(products))
        np.testing.assert_allclose(said, rooted / np.linalg.norm(rooted), rtol=1e-5, atol=1e-6)


def test_a_map_without_places_has_products_and_a_blank_one_does_no_harm():
    part = Bilinear(3, 80)
    assert part(torch.ones(2, 3)).shape == (2, 6)
    assert torch.equal(part(torch.zeros(1, 3, 2, 2)), torch.zeros(1, 6))


def test_each_channel_goes_into_one_sum_and_no_sum_is_empty():
    found = sketch(11, 4)
    assert torch.equal(found.abs().sum(1), torch.ones(11))
    assert found.abs().sum(0).min() >= 1
    assert torch.equal(sketch(3, 3).abs(), torch.eye(3))


def test_the_map_is_the_last_before_the_last_reduction():
    flat = torch.zeros(1, 9)
    maps = {name: torch.zeros(1, 1, side, side) for name, side in (("a", 8), ("b", 4), ("c", 4), ("d", 2), ("e", 2))}
    assert middle_map(flat, {**maps, "features": flat}) is maps["c"]
    assert middle_map(flat, {"d": maps["d"], "e": maps["e"]}) is maps["e"], "none has more places"
    assert middle_map(flat, {"features": flat}) is flat


def test_answers_are_the_product_of_three():
    learner, scenario = learnt()
    x = torch.cat([task.test.x for task in scenario.tasks])
    z, u = learner.features(x).double().split([learner.means_width, learner.bilinear.width], dim=1)
    ridge, of_slda, of_ridge = learner.chosen
    factors = [
        F.linear(z, *SLDA.solve(learner, scenario.tasks[-1])) / of_slda,
        F.linear(z, *ridge_weights(learner.statistics, ridge)) / of_ridge,
        F.linear(u, *ridge_weights(learner.products, RIDGE)) / learner.product_temperature,
    ]
    wanted = sum(factor.log_softmax(1) for factor in factors).log_softmax(1)
    said = learner.predict(x, None).double() * learner.temperatures.double().log().mean().exp()
    torch.testing.assert_close(said.log_softmax(1), wanted, rtol=1e-4, atol=1e-4)


def test_what_tasks_have_chosen_of_products_is_averaged():
    learner, scenario = learnt()
    found = learner.product_temperatures
    assert found.shape == (len(scenario.tasks), 1)
    np.testing.assert_allclose(learner.product_temperature, np.exp(np.log(found.numpy()).mean()))
    learner.product_temperatures = torch.full((1, 1), float("nan"), dtype=torch.float64)
    assert learner.product_temperature == UNCHOSEN


def test_what_is_counted_is_what_all_images_come_to_and_is_told():
    learner, scenario = learnt()
    x, y = (
        torch.cat([torch.cat([getattr(task.train, kind), getattr(task.val, kind)]) for task in scenario.tasks])
        for kind in "xy"
    )
    u = learner.features(x)[:, learner.means_width :].double()
    torch.testing.assert_close(learner.products.products, u.T @ u, rtol=1e-5, atol=1e-6)
    assert learner.products.counts.sum() == len(y) == learner.statistics.counts.sum()
    assert report_of(learner).memory["bytes"] == learner.statistics.bytes + learner.products.bytes


def test_an_audit_looks_at_what_is_counted_of_products_and_at_how_channels_are_summed():
    for name in ("products.sums", "bilinear.mix", "product_temperatures"):
        *_, (learner, seen) = walk(tiny.experiment("slda-bilinear"))
        made = [promise(learner, [*seen[: task.id], task]) for task in seen]
        assert audit(learner, seen, made).ok
        learner.get_buffer(name)[0] += 1e-3
        assert any(name in broken for broken in audit(learner, seen, made).broken)
