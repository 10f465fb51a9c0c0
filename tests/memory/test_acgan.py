"""AC-GAN on the WGAN-GP critic: the supplement's shapes, losses against hand computation, and an easy target."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from lockgate.memory.gan.acgan import ACGAN, LABEL, NOISE, ClassCritic, ConditionalGenerator
from lockgate.types import Batch

Shape = tuple[int, int, int]
SETS = {
    "mnist": ((1, 28, 28), 2),
    "svhn": ((3, 32, 32), 2),
    "cifar10": ((3, 32, 32), 2),
    "imagenet50": ((3, 32, 32), 10),
}


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def make_gan(critic_steps: int = 2, shape: Shape = (1, 8, 8), classes: int = 2, width: float = 0.02) -> ACGAN:
    torch.manual_seed(0)
    critic = ClassCritic(shape, classes, width)
    return ACGAN(ConditionalGenerator(shape, classes, width), critic, critic_steps, 1).train()


def some_batch(count: int = 6, shape: Shape = (1, 8, 8), classes: int = 2) -> Batch:
    x = torch.randint(0, 256, (count, *shape), dtype=torch.uint8)
    return Batch(x, torch.arange(count) % classes, torch.zeros(count, dtype=torch.int64))


def cross_entropy(logits: Tensor, y: Tensor) -> float:
    """The mean of log sum exp - logit, in doubles."""
    rows = [(row, int(label)) for row, label in zip(logits.tolist(), y, strict=True)]
    return sum(math.log(sum(math.exp(v) for v in row)) - row[label] for row, label in rows) / len(rows)


# -- networks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(SETS))
def test_the_networks_are_the_supplements_with_a_label_table_and_a_classifier_more(name: str):
    shape, classes = SETS[name]
    torch.manual_seed(0)
    generator, critic = ConditionalGenerator(shape, classes, 1.0), ClassCritic(shape, classes, 1.0)
    mnist = (128 * 4096 + 4096) + (256 * 128 * 25 + 128) + (128 * 64 * 25 + 64) + (64 * 64 + 1)
    assert parameters(generator) - classes * LABEL == (mnist if name == "mnist" else 1_731_203)
    features = 256 * 16 if name == "mnist" else 512 * 16
    assert generator.net[0].in_features == NOISE + LABEL == 128
    assert (critic.score.in_features, critic.classifier.in_features) == (features, features)
    y = torch.arange(2) % classes
    images = generator(generator.code(torch.randn(2, NOISE), y))
    assert images.shape == (2, *shape)
    score, logits = critic.both(images)
    assert (score.shape, logits.shape) == ((2, 1), (2, classes))
    assert torch.equal(critic(images), score)


def test_the_input_is_the_noise_and_behind_it_the_labels_row():
    generator = make_gan(classes=3).generator
    noise, y = torch.randn(4, NOISE), torch.tensor([2, 0, 2, 1])
    code = generator.code(noise, y)
    for i, label in enumerate(y.tolist()):
        assert code[i].tolist() == noise[i].tolist() + generator.labels.weight[label].tolist()


def test_the_classifier_reads_what_the_score_reads():
    critic = ClassCritic((1, 8, 8), 3, 0.02)
    x = torch.randn(4, 1, 8, 8)
    features = critic.trunk(x)
    score, logits = critic.both(x)
    by_hand = features @ critic.score.weight.T + critic.score.bias
    torch.testing.assert_close(score, by_hand)
    torch.testing.assert_close(logits, features @ critic.classifier.weight.T + critic.classifier.bias)


# -- losses ------------------------------------------------------------------------------------------------------------


def linear_gan(norm: float) -> ACGAN:
    """A GAN whose critic is one linear map with a gradient of this norm, whatever the classifier says."""
    gan = make_gan(critic_steps=1)
    gan.critic.trunk = nn.Flatten()
    gan.critic.score, gan.critic.classifier = nn.Linear(64, 1), nn.Linear(64, 2)
    with torch.no_grad():
        gan.critic.score.weight.mul_(norm / gan.critic.score.weight.norm())
    return gan


def test_the_critics_losses_by_hand():
    gan, batch = linear_gan(1.5), some_batch(5)
    torch.manual_seed(7)
    losses = gan(batch)
    torch.manual_seed(7)
    fake = gan.generator(gan.generator.code(torch.randn(5, NOISE), batch.y)).detach().flatten(1)
    real = (batch.x.double() / 255 * 2 - 1).float().flatten(1)
    critic = gan.critic
    scores = [images @ critic.score.weight[0] + critic.score.bias for images in (fake, real)]
    assert losses["critic"].item() == pytest.approx((scores[0].mean() - scores[1].mean()).item(), abs=1e-5)
    by_hand = float(cross_entropy(critic.classifier(real), batch.y))  # of real images alone
    assert losses["critic class"].item() == pytest.approx(by_hand, rel=1e-5)
    assert losses["penalty"].item() == pytest.approx(10 * (1.5 - 1) ** 2, rel=1e-4), "of the score's gradient alone"
    assert set(losses) == {"critic", "critic class", "penalty"}


def test_the_generators_losses_by_hand():
    gan, batch = linear_gan(1.5), some_batch(5)
    gan.step = 1
    torch.manual_seed(7)
    losses = gan(batch)
    torch.manual_seed(7)
    y = torch.randint(2, (5,))
    score, logits = gan.critic.both(gan.generator(gan.generator.code(torch.randn(5, NOISE), y)))
    assert losses["generator"].item() == pytest.approx(-sum(score[:, 0].tolist()) / 5, rel=1e-5)
    assert losses["generator class"].item() == pytest.approx(cross_entropy(logits, y), rel=1e-5)
    assert set(losses) == {"generator", "generator class"}


def test_each_step_moves_one_network_labels_and_classifier_included():
    gan = make_gan(critic_steps=2)
    optimiser = torch.optim.AdamW(gan.parameter_groups(1e-2), betas=(0.5, 0.9), weight_decay=0.0)
    for step in range(6):
        before = {name: value.clone() for name, value in gan.named_parameters()}
        gan.step = step
        torch.stack(list(gan(some_batch()).values())).sum().backward()
        optimiser.step()
        optimiser.zero_grad()
        gan.after_step()
        moved = {name for name, value in gan.named_parameters() if not torch.equal(value, before[name])}
        mover = "generator" if step % 3 == 2 else "critic"
        assert {name.split(".")[0] for name in moved} == {mover}
        assert {"generator": "generator.labels.weight", "critic": "critic.classifier.weight"}[mover] in moved


# -- does it learn -----------------------------------------------------------------------------------------------------


def test_images_come_to_look_like_the_class_asked_for():
    patterns = torch.full((2, 1, 8, 8), 40)
    patterns[0, :, :, 4:] = 220  # bright on the right
    patterns[1, :, 4:, :] = 220  # bright below
    gan = make_gan(critic_steps=2, width=0.06)
    x = (patterns.repeat(32, 1, 1, 1) + torch.randint(-10, 11, (64, 1, 8, 8))).to(torch.uint8)
    optimiser = torch.optim.AdamW(gan.parameter_groups(1e-2), betas=(0.5, 0.9), weight_decay=0.0)
    for step in range(60 * 3):
        gan.step = step
        rows = torch.randint(64, (16,))
        torch.stack(list(gan(Batch(x[rows], rows % 2, rows)).values())).sum().backward()
        optimiser.step()
        optimiser.zero_grad()
        gan.after_step()
    gan.eval()
    y = torch.arange(100) % 2
    with torch.no_grad():
        samples = gan.generator.pixels(gan.generator.code(torch.randn(100, NOISE), y)).double()
    errors = torch.stack([(samples - pattern).abs().mean((1, 2, 3)) for pattern in patterns], dim=1)
    assert (errors.argmin(1) == y).double().mean() > 0.9
