"""Generators and critics by their sizes; WGAN-GP against hand computation, and on an easy target."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from lockgate.memory.gan.nets import LATENT, Crop, Generator, make_critic, make_generator, scaled
from lockgate.memory.gan.wgan_gp import WGANGP, gradient_penalty
from lockgate.types import Batch

SHAPES = [(1, 28, 28), (3, 32, 32), (3, 8, 8), (1, 8, 8), (3, 64, 64), (3, 15, 17), (1, 28, 20), (2, 9, 33), (1, 1, 1)]
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)

Shape = tuple[int, int, int]


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def sides(net: nn.Sequential, x: Tensor) -> list[int]:
    """The sides that images take on their way through ``net``, each once."""
    found: list[int] = []
    for layer in net:
        x = layer(x)
        if x.ndim == 4 and x.shape[2] not in found:
            assert x.shape[2] == x.shape[3]
            found.append(x.shape[2])
    return found


# -- networks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("width", [0.02, 0.1])
def test_noise_becomes_images_of_the_shape_asked_and_images_become_scores(shape: Shape, width: float):
    torch.manual_seed(0)
    generator, critic = make_generator(shape, width), make_critic(shape, width)
    images = generator(20 * torch.randn(5, LATENT))
    assert images.shape == (5, *shape)
    assert generator.low <= images.min()
    assert images.max() <= 1
    assert generator.low == (0 if shape == (1, 28, 28) else -1)
    assert critic(images).shape == (5, 1)
    pixels = generator.pixels(torch.randn(5, LATENT))
    assert pixels.shape == (5, *shape)
    assert pixels.dtype == torch.uint8


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 16, 16)], ids=str)
def test_the_whole_range_of_pixels_can_be_generated(shape: Shape):
    torch.manual_seed(0)
    generator = make_generator(shape, 0.05)
    last = [layer for layer in generator.net if isinstance(layer, nn.ConvTranspose2d)][-1]
    for bias, pixel in ((-100.0, 0), (100.0, 255)):
        nn.init.constant_(last.bias, bias)
        assert (generator.pixels(torch.randn(4, LATENT)) == pixel).all()


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 16, 16)], ids=str)
def test_pixels_undoes_from_pixels_for_all_256_values(shape: Shape):
    low = make_generator(shape, 0.02).low
    x = torch.arange(256, dtype=torch.uint8).reshape(4, 1, 8, 8)
    unchanged = Generator(nn.Sequential(nn.Identity()), low)
    seen = unchanged.from_pixels(x)
    assert (seen.min().item(), seen.max().item()) == (low, 1)
    assert torch.equal(unchanged.pixels(seen), x)


def test_a_value_out_of_range_becomes_the_nearest_pixel_instead_of_wrapping_round():
    unchanged = Generator(nn.Sequential(nn.Identity()), -1.0)
    assert unchanged.pixels(torch.tensor([-1.5, -1.0, 0.0, 1.0, 1.5])).tolist() == [0, 0, 128, 255, 255]


def test_the_mnist_generator_crops_8_to_7_and_ends_at_28():
    net = make_generator((1, 28, 28), 0.02).net
    assert sides(net, torch.randn(2, LATENT)) == [4, 8, 7, 11, 28]


def test_the_crop_keeps_the_top_left():
    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(Crop(7, 5)(x), x[:, :, :7, :5])


def test_the_colour_generator_doubles_from_4_to_32_and_the_critics_halve():
    assert sides(make_generator((3, 32, 32), 0.02).net, torch.randn(2, LATENT)) == [4, 8, 16, 32]
    assert sides(make_critic((3, 32, 32), 0.02), torch.randn(2, 3, 32, 32)) == [16, 8, 4]
    assert sides(make_critic((1, 28, 28), 0.02), torch.randn(2, 1, 28, 28)) == [14, 7, 4]


def test_five_colour_generators_are_the_papers_33_02_mebibytes():
    linear, norm = 128 * 8192 + 8192, 2 * 8192
    convs = (512 * 256 * 4 + 256) + (256 * 128 * 4 + 128) + (128 * 3 * 4 + 3)
    count = parameters(make_generator((3, 32, 32)))
    assert count == linear + norm + convs + 2 * 256 + 2 * 128 == 1_731_203
    assert 5 * count * 4 / 2**20 == pytest.approx(33.02, abs=0.005)


def test_the_other_networks_have_the_supplements_sizes():
    by_hand = (128 * 4096 + 4096) + (256 * 128 * 25 + 128) + (128 * 64 * 25 + 64) + (64 * 1 * 64 + 1)
    assert parameters(make_generator((1, 28, 28))) == by_hand
    by_hand = (1 * 64 * 25 + 64) + (64 * 128 * 25 + 128) + (128 * 256 * 25 + 256) + (256 * 16 + 1)
    assert parameters(make_critic((1, 28, 28))) == by_hand
    by_hand = (3 * 128 * 9 + 128) + (128 * 256 * 9 + 256) + (256 * 512 * 9 + 512) + (512 * 16 + 1)
    assert parameters(make_critic((3, 32, 32))) == by_hand


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_critics_have_no_batchnorm_and_of_the_generators_only_the_colour_ones(shape: Shape):
    assert not any(isinstance(module, NORMS) for module in make_critic(shape, 0.02).modules())
    norms = sum(isinstance(module, NORMS) for module in make_generator(shape, 0.02).modules())
    assert norms == (0 if shape == (1, 28, 28) else 3)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_new_networks_keep_the_scale_of_their_input(shape: Shape):
    """Each output is a sum of ``fan`` inputs: variance 2 / fan before a ReLU, 1 / fan in the last layer; no biases."""
    torch.manual_seed(0)
    for net in (make_generator(shape, 0.5).net, make_critic(shape, 0.5)):
        layers = [part for part in net if isinstance(part, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d))]
        for layer in layers:
            if isinstance(layer, nn.ConvTranspose2d):
                fan = layer.in_channels * layer.kernel_size[0] ** 2 / layer.stride[0] ** 2
            else:
                fan = layer.weight[0].numel()
            wanted = (1 if layer is layers[-1] else 2) / fan
            assert layer.weight.var().item() == pytest.approx(wanted, rel=0.25)
            assert not layer.bias.any()


def test_a_fresh_mnist_generator_makes_different_images_of_different_noise():
    torch.manual_seed(0)
    generator = make_generator((1, 28, 28), 0.25)
    images = generator(torch.randn(32, LATENT))
    assert images.std(0).mean() > 0.02  # as torch starts such layers: 0.005


def test_a_critic_scores_an_image_by_itself():
    torch.manual_seed(0)
    critic, x = make_critic((3, 8, 8), 0.1), torch.randn(6, 3, 8, 8)
    assert torch.allclose(critic(x), torch.cat([critic(image[None]) for image in x]), atol=1e-6)


def test_width_scales_channels_and_leaves_at_least_one():
    assert [scaled(512, width) for width in (1, 0.25, 0.001)] == [512, 128, 1]
    assert parameters(make_generator((3, 32, 32), 0.25)) < parameters(make_generator((3, 32, 32))) / 5


# -- the penalty -------------------------------------------------------------------------------------------------------


def linear_critic(pixels: int, norm: float) -> nn.Sequential:
    """D(x) = w.x + b with |w| = norm."""
    critic = nn.Sequential(nn.Flatten(), nn.Linear(pixels, 1))
    with torch.no_grad():
        critic[1].weight.mul_(norm / critic[1].weight.norm())
    return critic


class Witness(nn.Module):
    """A critic that remembers what it was shown."""

    def __init__(self, critic: nn.Module) -> None:
        super().__init__()
        self.critic = critic

    def forward(self, x: Tensor) -> Tensor:
        self.shown = x.detach()
        return self.critic(x)


@given(st.floats(0.01, 20), st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_the_penalty_of_a_linear_critic_is_the_squared_distance_of_its_norm_from_one(norm: float, count: int):
    torch.manual_seed(0)
    critic = linear_critic(12, norm)
    penalty = gradient_penalty(critic, torch.randn(count, 3, 2, 2), torch.randn(count, 3, 2, 2))
    assert penalty.item() == pytest.approx((norm - 1) ** 2, rel=1e-4, abs=1e-6)
    penalty.backward()  # d (|w| - 1)^2 / dw = 2 (|w| - 1) w / |w|
    weight = critic[1].weight
    assert torch.allclose(weight.grad, 2 * (norm - 1) / norm * weight.detach(), rtol=1e-3, atol=1e-5)


def test_the_penalty_of_a_bent_critic_is_that_of_slopes_measured_image_by_image_pixel_by_pixel():
    torch.manual_seed(0)
    bent = nn.Sequential(nn.Conv2d(2, 4, 2), nn.Tanh(), nn.Flatten(), nn.Linear(16, 1)).double()
    critic = Witness(bent)
    real, fake = 3 * torch.randn(2, 5, 2, 3, 3, dtype=torch.float64)
    penalty = gradient_penalty(critic, real, fake)
    total, step = 0.0, 1e-6
    for image in critic.shown:
        squares = 0.0
        for pixel in range(image.numel()):
            nudge = torch.zeros_like(image)
            nudge.view(-1)[pixel] = step
            up, down = (float(bent((image + sign * nudge)[None]).detach()) for sign in (1, -1))
            squares += ((up - down) / (2 * step)) ** 2
        total += (math.sqrt(squares) - 1) ** 2
    assert penalty.item() == pytest.approx(total / len(real), rel=1e-6)


def test_each_image_is_mixed_by_one_alpha_of_its_own():
    torch.manual_seed(0)
    critic = Witness(linear_critic(27, 1.0))
    gradient_penalty(critic, torch.ones(200, 3, 3, 3), torch.zeros(200, 3, 3, 3))
    alpha = critic.shown[:, 0, 0, 0]
    assert torch.equal(critic.shown, alpha[:, None, None, None].expand_as(critic.shown))
    assert len(set(alpha.tolist())) > 190
    assert ((alpha >= 0) & (alpha <= 1)).all()
    assert 0.4 < alpha.mean() < 0.6
    assert alpha.min() < 0.05
    assert alpha.max() > 0.95


def test_a_mixed_image_lies_between_its_own_two():
    torch.manual_seed(0)
    critic = Witness(linear_critic(4, 1.0))
    real, fake = torch.randn(2, 30, 1, 2, 2)
    gradient_penalty(critic, real, fake)
    alpha = ((critic.shown - fake) / (real - fake)).flatten(1)
    assert torch.allclose(alpha, alpha[:, :1].expand_as(alpha), atol=1e-3)


def test_the_critics_loss_and_its_penalty_teach_the_critic_and_not_the_generator():
    gan = make_gan()
    gan.requires_grad_(True)  # even if the generator could learn
    losses = gan.critic_losses(some_batch())
    assert losses.keys() == {"critic", "penalty"}
    torch.stack(list(losses.values())).sum().backward()
    assert all(p.grad.any() for p in gan.critic.parameters() if p.ndim > 1)
    assert all(p.grad is None for p in gan.generator.parameters())


def test_a_flat_critic_is_penalised_with_one_and_gets_finite_gradients():
    critic = nn.Sequential(nn.Flatten(), nn.Linear(4, 1))
    nn.init.zeros_(critic[1].weight)
    penalty = gradient_penalty(critic, torch.randn(3, 1, 2, 2), torch.randn(3, 1, 2, 2))
    penalty.backward()
    assert penalty.item() == 1
    assert critic[1].weight.grad.isfinite().all()


# -- the steps ---------------------------------------------------------------------------------------------------------


def make_gan(critic_steps: int = 2, penalty_every: int = 1, shape: Shape = (1, 8, 8), width: float = 0.02) -> WGANGP:
    torch.manual_seed(0)
    return WGANGP(make_generator(shape, width), make_critic(shape, width), critic_steps, penalty_every).train()


def batch_of(x: Tensor) -> Batch:
    return Batch(x, torch.zeros(len(x), dtype=torch.int64), torch.zeros(len(x), dtype=torch.int64))


def some_batch(count: int = 6, shape: Shape = (1, 8, 8)) -> Batch:
    return batch_of(torch.randint(0, 256, (count, *shape), dtype=torch.uint8))


def learning(module: nn.Module) -> set[bool]:
    return {p.requires_grad for p in module.parameters()}


def test_a_critic_step_gives_gradients_to_the_critic_only_and_a_generator_step_to_the_generator_only():
    gan = make_gan(critic_steps=2)
    for step in range(6):
        gan.step = step
        losses = gan(some_batch())
        torch.stack(list(losses.values())).sum().backward()
        mover, other = (gan.generator, gan.critic) if step % 3 == 2 else (gan.critic, gan.generator)
        assert all(p.grad is not None for p in mover.parameters())
        assert sum(float(p.grad.abs().sum()) for p in mover.parameters()) > 0
        assert all(p.grad is None for p in other.parameters())
        gan.zero_grad()
        gan.after_step()
        assert learning(gan) == {False}


def test_under_the_real_optimiser_each_step_moves_one_network_and_leaves_the_other_bit_for_bit():
    gan = make_gan(critic_steps=2)
    optimiser = torch.optim.AdamW(gan.parameter_groups(1e-2), betas=(0.5, 0.9), weight_decay=0.0)
    for step in range(9):
        before = {name: value.clone() for name, value in gan.named_parameters()}
        take_step(gan, optimiser, some_batch(), step)
        moved = {name.split(".")[0] for name, value in gan.named_parameters() if not torch.equal(value, before[name])}
        assert moved == {"generator" if step % 3 == 2 else "critic"}


def test_a_new_gan_learns_nothing_until_its_first_step_yet_all_of_it_is_given_to_the_optimiser():
    gan = make_gan()
    assert learning(gan) == {False}
    groups = gan.parameter_groups(0.25)
    given_ = [p for group in groups for p in group["params"]]
    assert {id(p) for p in given_} == {id(p) for p in gan.parameters()}
    assert len(given_) == len(list(gan.parameters()))
    assert {group["lr"] for group in groups} == {0.25}


def test_a_round_is_the_critics_steps_and_then_one_of_the_generator():
    gan, batch = make_gan(critic_steps=3), some_batch()
    order = []
    for step in range(12):
        gan.step = step
        order.append(next(iter(gan(batch))))
        gan.after_step()
    assert order == ["critic", "critic", "critic", "generator"] * 3


@given(st.integers(1, 4), st.integers(1, 5))
@settings(max_examples=12, deadline=None)
def test_every_so_many_critic_steps_has_a_penalty_whatever_the_rounds(critic_steps: int, penalty_every: int):
    gan, batch = make_gan(critic_steps, penalty_every), some_batch(2)
    seen = 0  # critic steps so far
    for step in range(4 * (critic_steps + 1)):
        gan.step = step
        terms = set(gan(batch))
        gan.after_step()
        if "generator" in terms:
            assert terms == {"generator"}
            continue
        assert terms == ({"critic", "penalty"} if seen % penalty_every == 0 else {"critic"})
        seen += 1
    assert seen == 4 * critic_steps


@pytest.mark.parametrize("penalty_every", [1, 2, 5])
def test_a_rarer_penalty_is_as_many_times_stronger(penalty_every: int):
    torch.manual_seed(0)
    gan = WGANGP(make_generator((1, 8, 8), 0.02), linear_critic(64, 1.5), 1, penalty_every)
    assert gan(some_batch())["penalty"].item() == pytest.approx(10 * penalty_every * 0.5**2, rel=1e-4)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 8, 8)], ids=str)
def test_the_losses_are_the_scores_of_fakes_and_of_real_images_in_the_generators_range(shape: Shape):
    torch.manual_seed(0)
    critic = linear_critic(math.prod(shape), 2.0)
    gan = WGANGP(make_generator(shape, 0.02), critic, 1, 1).train()
    batch = some_batch(5, shape)
    low = gan.generator.low
    score = [0.0, 0.0]
    torch.manual_seed(7)
    losses = gan(batch)
    torch.manual_seed(7)
    fake = gan.generator(torch.randn(5, LATENT)).detach()  # by batch statistics: the same as above
    real = low + batch.x.double() / 255 * (1 - low)
    weight, bias = critic[1].weight[0].tolist(), critic[1].bias.item()
    for which, images in enumerate((fake, real)):
        for image in images:
            score[which] += sum(w * v for w, v in zip(weight, image.flatten().tolist(), strict=True)) + bias
    assert losses["critic"].item() == pytest.approx((score[0] - score[1]) / 5, abs=1e-4)
    gan.step = 1
    torch.manual_seed(7)
    assert gan(batch)["generator"].item() == pytest.approx(-score[0] / 5, abs=1e-4)


def test_every_step_draws_new_noise_and_the_seed_decides_it():
    gan, batch = make_gan(critic_steps=1), some_batch()
    values = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        gan.step = 1
        values.append(gan(batch)["generator"].item())
    assert values[0] == values[1] != values[2]


# -- does it learn -----------------------------------------------------------------------------------------------------


def take_step(gan: WGANGP, optimiser: torch.optim.Optimizer, batch: Batch, step: int) -> None:
    """As the engine does it."""
    gan.step = step
    torch.stack(list(gan(batch).values())).sum().backward()
    optimiser.step()
    optimiser.zero_grad()
    gan.after_step()


@torch.no_grad()
def nearest(generator: Generator, patterns: Tensor) -> tuple[float, set[int]]:
    """Mean absolute error of samples to the nearest of ``patterns``, in grey levels; and which ones are met."""
    generator.eval()
    samples = generator.pixels(torch.randn(200, LATENT)).double()
    generator.train()
    errors = torch.stack([(samples - pattern).abs().mean((1, 2, 3)) for pattern in patterns])
    return errors.min(0).values.mean().item(), set(errors.argmin(0).tolist())


def test_samples_come_to_look_like_the_data_and_like_both_kinds_of_it():
    patterns = torch.full((2, 1, 8, 8), 40)
    patterns[0, :, :, 4:] = 220  # bright on the right
    patterns[1, :, 4:, :] = 220  # bright below
    gan = make_gan(critic_steps=3, penalty_every=2, width=0.06)
    x = (patterns.repeat(64, 1, 1, 1) + torch.randint(-10, 11, (128, 1, 8, 8))).to(torch.uint8)
    optimiser = torch.optim.AdamW(gan.parameter_groups(1e-2), betas=(0.5, 0.9), weight_decay=0.0)
    before, _ = nearest(gan.generator, patterns)
    for step in range(48 * 4):
        take_step(gan, optimiser, batch_of(x[torch.randint(len(x), (16,))]), step)
    after, met = nearest(gan.generator, patterns)
    assert before > 80
    assert after < 40  # the mean of the two kinds, which is neither, is 45 away
    assert met == {0, 1}


# -- the mean of a generator's weights ---------------------------------------------------------------------------------


def _averaged(shape: Shape, window: int, iterations: int) -> tuple[WGANGP, list[dict[str, Tensor]]]:
    """A GAN after some iterations, and what its generator was after each of them."""
    torch.manual_seed(0)
    gan = WGANGP(make_generator(shape, 0.02), make_critic(shape, 0.02), 2, 1, window)
    optimiser = torch.optim.Adam(gan.parameters(), lr=1e-2)
    seen = []
    for gan.step in range(3 * iterations):
        batch = Batch(torch.randint(0, 256, (4, *shape), dtype=torch.uint8), torch.zeros(4), torch.zeros(4))
        optimiser.zero_grad()
        torch.stack(list(gan.loss(batch).values())).sum().backward()
        optimiser.step()
        gan.after_step()
        if gan.rounds.is_generators(gan.step):
            seen.append({name: value.clone() for name, value in gan.generator.state_dict().items()})
    return gan, seen


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 8, 8)], ids=str)  # without and with BatchNorm
def test_the_mean_follows_the_generator_step_by_step(shape: Shape):
    window = 3
    gan, seen = _averaged(shape, window, 5)
    truth = seen[0]
    for n, now in enumerate(seen[1:], 2):
        truth = {
            name: old + (now[name] - old) / min(n, window) if old.is_floating_point() else now[name]
            for name, old in truth.items()
        }
    assert gan.final_generator is gan.mean
    for name, value in gan.final_generator.state_dict().items():
        assert torch.allclose(value, truth[name], atol=1e-6), name
    assert not any(p.requires_grad for p in gan.final_generator.parameters())


def test_within_its_window_the_mean_is_the_plain_one():
    gan, seen = _averaged((1, 28, 28), 10, 4)
    for name, value in gan.final_generator.state_dict().items():
        assert torch.allclose(value, torch.stack([weights[name] for weights in seen]).mean(0), atol=1e-6)


def test_without_a_window_the_last_weights_are_kept_and_nothing_else_is_stored():
    gan, _ = _averaged((1, 28, 28), 0, 1)
    assert gan.final_generator is gan.generator
    assert {name.split(".")[0] for name in gan.state_dict()} == {"generator", "critic"}


def test_a_mean_learns_as_its_generator_would_without_it():
    (one, _), (other, _) = (_averaged((1, 28, 28), window, 3) for window in (0, 2))
    assert all(torch.equal(a, b) for a, b in zip(one.generator.parameters(), other.generator.parameters(), strict=True))
