"""The straight-through Gumbel gate: what it decides, how it is differentiated, and how its noise is distributed."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.layers.gumbel import TEMPERATURE, hard_gate, logistic_noise

SAMPLES = 200_000
FINITE = st.floats(-30, 30, width=32)


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def noisy_mean_and_gradient(z: float, temperature: float) -> tuple[float, float]:
    """Means over noise of the gate and of its straight-through gradient."""
    torch.manual_seed(0)
    logits = torch.full((SAMPLES,), z, dtype=torch.float64, requires_grad=True)
    gate = hard_gate(logits, noisy=True, temperature=temperature)
    gate.sum().backward()
    return gate.mean().item(), logits.grad.mean().item()


def relaxed_expectation(z: float) -> float:
    """E[sigmoid(z + noise)] for logistic noise: the distribution function of a difference of two logistics, at z."""
    w = math.exp(z)
    return 0.5 if abs(z) < 1e-9 else w * (w - 1 - z) / (w - 1) ** 2


@settings(deadline=None, max_examples=50)
@given(st.lists(FINITE, min_size=1, max_size=20))
def test_the_gate_is_one_above_zero_and_zero_elsewhere(values):
    gate = hard_gate(torch.tensor(values), noisy=False)
    assert gate.tolist() == [1.0 if value > 0 else 0.0 for value in values]


def test_a_logit_of_exactly_zero_is_shut():
    assert hard_gate(torch.tensor([0.0, -0.0]), noisy=False).tolist() == [0.0, 0.0]


def test_without_noise_no_random_number_is_drawn():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    hard_gate(torch.randn(5, generator=torch.Generator().manual_seed(1)), noisy=False)
    assert torch.equal(torch.get_rng_state(), before)


def test_noise_changes_decisions_near_the_threshold():
    torch.manual_seed(0)
    assert 0 < hard_gate(torch.full((1000,), 0.5), noisy=True).mean() < 1


def test_the_temperature_is_the_papers():
    assert pytest.approx(2 / 3) == TEMPERATURE


@settings(deadline=None, max_examples=50)
@given(FINITE, st.floats(-3, 3, width=32))
def test_the_gradient_is_that_of_a_sigmoid_of_temperature_two_thirds(z, upstream):
    logits = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    hard_gate(logits, noisy=False).backward(torch.tensor(upstream, dtype=torch.float64))
    s = sigmoid(1.5 * z)
    assert float(logits.grad) == pytest.approx(upstream * s * (1 - s) * 1.5, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("z", [-2.0, -0.3, 0.0, 0.7, 3.0])
def test_the_gradient_is_the_finite_difference_of_the_soft_gate(z):
    logits = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    hard_gate(logits, noisy=False).backward()
    h = 1e-6
    difference = (sigmoid((z + h) / TEMPERATURE) - sigmoid((z - h) / TEMPERATURE)) / (2 * h)
    assert float(logits.grad) == pytest.approx(difference, abs=1e-8)


def test_the_noise_is_logistic():
    torch.manual_seed(0)
    noise = logistic_noise(torch.empty(SAMPLES, dtype=torch.float64))
    assert float(noise.mean()) == pytest.approx(0, abs=0.02)
    assert float(noise.var()) == pytest.approx(math.pi**2 / 3, rel=0.02)
    for z in (-3.0, -1.0, 0.0, 0.5, 2.0):
        assert float((noise <= z).double().mean()) == pytest.approx(sigmoid(z), abs=0.005)


def test_the_noise_is_a_difference_of_two_gumbels():
    torch.manual_seed(0)
    one, two = (torch.distributions.Gumbel(0.0, 1.0).sample((SAMPLES,)) for _ in range(2))
    quantiles = torch.linspace(0.02, 0.98, 25)
    ours = torch.quantile(logistic_noise(torch.empty(SAMPLES)), quantiles)
    assert torch.allclose(ours, torch.quantile(one - two, quantiles), atol=0.08)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_noise_is_always_finite(dtype):
    torch.manual_seed(0)
    assert torch.isfinite(logistic_noise(torch.empty(2_000_000, dtype=dtype))).all()


@pytest.mark.parametrize("z", [-2.0, -0.5, 0.0, 1.5])
def test_a_noisy_gate_opens_with_the_sigmoid_of_its_logit(z):
    assert noisy_mean_and_gradient(z, TEMPERATURE)[0] == pytest.approx(sigmoid(z), abs=0.006)


@pytest.mark.parametrize("z", [-1.5, 0.0, 1.0])
def test_the_mean_gradient_is_that_of_the_relaxed_expectation(z):
    # The straight-through gradient is unbiased for E[sigmoid((z + noise) / tau)], not for E[gate] = sigmoid(z).
    # At tau = 1 the former has a closed form; its finite difference is the truth here.
    h = 1e-4
    difference = (relaxed_expectation(z + h) - relaxed_expectation(z - h)) / (2 * h)
    assert noisy_mean_and_gradient(z, 1.0)[1] == pytest.approx(difference, abs=0.002)


def test_the_mean_gradient_is_biased_by_a_known_amount_and_the_bias_goes_with_the_temperature():
    # d/dz E[gate] = d/dz sigmoid(z) = 1/4 at z = 0; by integrating the squared logistic density, tau = 1 gives 1/6.
    exact = (sigmoid(1e-5) - sigmoid(-1e-5)) / 2e-5
    biases = [exact - noisy_mean_and_gradient(0.0, tau)[1] for tau in (1.0, TEMPERATURE, 0.1)]
    assert biases[0] == pytest.approx(1 / 4 - 1 / 6, abs=0.002)
    assert biases[0] > biases[1] > abs(biases[2])
    assert biases[2] == pytest.approx(0, abs=0.01)
