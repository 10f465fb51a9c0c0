"""Augmentation against plain loops."""

from __future__ import annotations

import torch

from lockgate.training.augment import random_affine, random_flip, random_translate


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
