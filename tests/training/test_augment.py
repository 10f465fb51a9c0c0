"""Augmentation against plain loops."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from PIL import Image, ImageEnhance
from tests.support import tiny

from lockgate.config import AugmentConfig
from lockgate.training.augment import augment, colour_jitter, random_affine, random_crop, random_flip, random_translate


def test_every_shifted_image_is_the_image_moved_with_its_border_repeated():
    torch.manual_seed(0)
    x = torch.randint(0, 256, (50, 2, 5, 7), dtype=torch.uint8)
    moved = random_translate(x, 2)
    padded = torch.nn.functional.pad(x.float(), (2, 2, 2, 2), mode="replicate").to(torch.uint8)
    found = set()
    for image, before in zip(moved, padded, strict=True):
        crops = {(i, j): before[:, i : i + 5, j : j + 7] for i in range(5) for j in range(5)}
        places = [place for place, crop in crops.items() if torch.equal(crop, image)]
        assert len(places) == 1
        found.update(places)
    assert len(found) > 15, "the shifts are not spread over all 25"


def test_no_shift_is_the_identity():
    x = torch.randint(0, 256, (3, 1, 4, 4), dtype=torch.uint8)
    assert torch.equal(random_translate(x, 0), x)


def test_each_flipped_image_is_itself_or_its_mirror_about_half_of_the_time():
    torch.manual_seed(0)
    x = torch.randint(0, 256, (200, 1, 4, 4), dtype=torch.uint8)
    flipped = random_flip(x)
    mirrored = [torch.equal(a, b.flip(2)) for a, b in zip(flipped, x, strict=True)]
    kept = [torch.equal(a, b) for a, b in zip(flipped, x, strict=True)]
    assert all(m or k for m, k in zip(mirrored, kept, strict=True))
    assert 60 < sum(mirrored) < 140


def test_the_same_seed_gives_the_same_batch():
    x = torch.randint(0, 256, (20, 1, 8, 8), dtype=torch.uint8)
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(random_flip(random_translate(x, 1)))
    assert torch.equal(*results)


def test_a_warped_image_samples_the_image_at_an_affine_map_of_its_pixels():
    """Brightness that rises linearly stays linear under any affine map, which can be read off it."""
    ramp = torch.arange(8, 24, dtype=torch.float32).repeat(16, 1) * 8  # (H, W), by column
    x = torch.stack([ramp, ramp.T])[None].repeat(40, 1, 1, 1).to(torch.uint8)
    warped = random_affine(x, 0.2, torch.Generator().manual_seed(0)).float()
    inside = warped[:, :, 5:11, 5:11]  # away from borders, which are repeated
    entries = torch.stack([inside.diff(dim=3).mean((2, 3)), inside.diff(dim=2).mean((2, 3))], dim=2) / 8  # (B, 2, 2)
    change = (entries - torch.eye(2)).abs()
    assert change.max() < 0.22
    assert change.amax(0).min() > 0.15, "one of the four entries hardly moves"
    assert (inside.mean((2, 3)) - x.float()[:, :, 5:11, 5:11].mean((2, 3))).abs().max() < 1, "the centre has moved"


def test_no_warp_is_the_identity_and_a_seed_is_a_warp():
    x = torch.randint(0, 256, (6, 3, 9, 9), dtype=torch.uint8)
    assert torch.equal(random_affine(x, 0.0), x)
    a, b, c = (random_affine(x, 0.1, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_a_crop_is_a_part_of_the_image_enlarged_to_all_of_it():
    """Brightness that rises linearly stays linear, and tells where in the image a crop begins and how large it is."""
    ramp = torch.linspace(20, 230, 64).repeat(64, 1)
    x = torch.stack([ramp, ramp.T])[None].repeat(300, 1, 1, 1).round().to(torch.uint8)
    found = random_crop(x, 0.75, torch.Generator().manual_seed(0)).float()
    step = 210 / 63
    width = (found[:, 0, :, -8].mean(1) - found[:, 0, :, 7].mean(1)) / (49 - 1 + 1) / step  # columns 7 and 56
    height = (found[:, 1, -8, :].mean(1) - found[:, 1, 7, :].mean(1)) / 49 / step
    area, ratio = width * height, width / height
    assert 0.2 < area.min() < 0.3
    assert 0.9 < area.max() < 1.03
    assert 0.7 < ratio.min() < 0.85
    assert 1.18 < ratio.max() < 1.4
    left = (found[:, 0, :, 31:33].mean((1, 2)) - x[0, 0, :, 31:33].float().mean()) / step / 32  # of the centre, [-1, 1]
    assert left.min() < -0.3
    assert left.max() > 0.3
    assert (left.abs() <= 1 - width + 0.05).all(), "no crop reaches beyond the image"


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["brightness", "contrast", "saturation"])
def test_jitter_is_what_pillow_enhances(kind):
    """An independent way to the same factor; Pillow rounds its greys, so a level or two may differ."""
    x = torch.randint(40, 200, (12, 3, 9, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    strength = [0.0, 0.0, 0.0]
    strength[kind] = 0.25
    found = colour_jitter(x, *strength, rng=torch.Generator().manual_seed(1))
    factors = 1 + 0.25 * (2 * torch.rand(12, 3, generator=torch.Generator().manual_seed(1))[:, kind] - 1)
    enhance = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[kind]
    for image, factor, wanted in zip(x, factors.tolist(), found, strict=True):
        made = enhance(Image.fromarray(image.permute(1, 2, 0).numpy())).enhance(factor)
        assert (torch.tensor(list(made.getdata())).T.reshape(3, 9, 8) - wanted.int()).abs().max() <= 2
    assert factors.max() - factors.min() > 0.2, "the factors hardly differ: the test would prove little"


def test_grey_images_have_no_colours_to_change():
    x = torch.randint(0, 256, (5, 1, 4, 4), dtype=torch.uint8)
    assert torch.equal(colour_jitter(x, 0.0, 0.0, 1.0), x)
    assert not torch.equal(colour_jitter(x, 0.5, 0.0, 0.0), x)


def test_what_is_off_draws_nothing_so_that_earlier_seeds_give_what_they_gave():
    x = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    torch.manual_seed(0)
    assert torch.equal(augment(x, AugmentConfig()), x)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("name", ["random_crop", "brightness", "contrast", "saturation"])
def test_every_option_varies_images_by_its_seed(name):
    x = torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8)
    config = AugmentConfig(**{name: 0.5})
    assert config.active
    a, b, c = (augment(x, config, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert a.dtype == torch.uint8
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_colours_of_rehearsed_images_can_vary_alone():
    whole = AugmentConfig(random_flip=True, brightness=0.3, saturation=0.5)
    assert whole.of_task() == whole
    only = dataclasses.replace(whole, colour_images="rehearsed")
    assert not only.of_task().photometric
    assert only.of_task().random_flip
    assert dataclasses.replace(whole, images="rehearsed").of_task() == AugmentConfig()
    learner, scenario = tiny.world("ccgn-episodic")
    learner.augment = AugmentConfig(saturation=1.0, colour_images="rehearsed")
    learner.begin_task(scenario.tasks[0])
    x, drawn = learner.rehearsal.draw(20, torch.Generator().manual_seed(0))
    assert not torch.equal(x, drawn.x), "what is rehearsed varies"
    assert torch.equal(augment(drawn.x, learner.augment.of_task()), drawn.x), "what is learnt does not"
