"""What a new model starts from: photos from a pretrained network where it is here, all else from scratch; and why."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lockgate.app.auto_config import first, for_task, refuse_changes
from lockgate.app.describing import describe
from lockgate.app.start import CLOSED_FORM, PRETRAINED, choose
from lockgate.app.user_settings import UserSettings, checked
from lockgate.data.task_images import ImageStats
from lockgate.errors import ConfigError

PHOTOS = ImageStats(160, False)


@pytest.mark.parametrize("side", [64, 160, 4000])
def test_photos_start_from_the_pretrained_network_and_keep_no_image(side: int) -> None:
    start = choose(UserSettings(), ImageStats(side, False), True)
    assert start[:3] == (PRETRAINED, CLOSED_FORM, "none")
    assert f"photos have {side} pixels" in start.reason
    assert "--network none" in start.reason, "the command for the other"
    made = first(UserSettings(), ImageStats(side, True), 1, start)
    assert (made.data.resize, made.data.greyscale) == ("crop", False), "as the weights want it, grey photos too"
    assert made.data.image_size == 224  # what the weights want, whatever the photos have
    assert made.augment.random_flip


@pytest.mark.parametrize(
    ("asked", "stats", "installed", "reason"),
    [
        (
            {},
            ImageStats(63, False),
            True,
            f"fewer than 64; pretrained: --network {PRETRAINED}",
        ),
        ({}, PHOTOS, False, "pip install 'lockgate[pretrained]'"),
        ({"size": 32}, PHOTOS, True, "'size' 32 is below 64"),
        ({"width": 8}, PHOTOS, True, "'width' was asked for"),
        ({"memory": "generative"}, PHOTOS, True, "'memory generative' was asked for"),
        ({"options": {"sparsity": 0.1}}, PHOTOS, True, "'options.sparsity' was asked for"),
    ],
)
def test_all_else_begins_from_scratch_and_the_reason_is_told(
    asked: dict[str, Any], stats: ImageStats, installed: bool, reason: str
) -> None:
    settings = UserSettings(**asked)
    start = choose(settings, stats, installed)
    assert start.backbone == "simple_cnn"
    assert start.memory == asked.get("memory", "episodic")
    assert reason in start.reason
    schedule = for_task(first(settings, stats, 1, start), settings, 100)
    text = "\n".join(describe(schedule, "pets", ["cat", "dog"], [50, 50], 0, start))
    assert f"start: from scratch, since {start.reason}" in text


def test_whoever_names_a_network_has_it_without_a_word() -> None:
    for name, installed in (("resnet18", True), (PRETRAINED, False)):
        start = choose(UserSettings(backbone=name), ImageStats(8, True), installed)
        assert (start.backbone, start.reason) == (name, "")
    none = checked(UserSettings(backbone="none"))
    assert choose(none, PHOTOS, True)[:3] == ("simple_cnn", "ccgn-episodic", "episodic")
    refuse_changes(none, first(none, PHOTOS, 1, choose(none, PHOTOS, True)))


@pytest.mark.parametrize(
    "asked", [{"epochs": 3}, {"keep": 9}, {"lr": 0.1}, {"options": {"buffer": 9}}, {"memory": "episodic"}]
)
def test_what_only_training_has_trains_streams_of_the_pretrained_network(asked: dict[str, Any]) -> None:
    settings = UserSettings(**asked)
    start = choose(settings, PHOTOS, True)
    assert start[:3] == (PRETRAINED, "ccgn-episodic", "episodic")
    made = first(settings, PHOTOS, 1, start)
    assert made.options["grow"] == 0, "what was given does not widen"
    said = "".join(describe(made, "pets", ["cat"], [9], 0, start))
    assert "up to" in said
    assert "answers: when training has ended; after one pass" in said


def test_settings_of_training_are_refused_where_nothing_is_trained() -> None:
    model = first(UserSettings(), PHOTOS, 1, choose(UserSettings(), PHOTOS, True))
    refuse_changes(UserSettings(memory="none", backbone=PRETRAINED, size=224), model)
    with pytest.raises(ConfigError, match="'epochs' is for what is trained, and slda-bilinear solves"):
        for_task(model, UserSettings(epochs=3), 100)
    with pytest.raises(ConfigError, match="'memory' was fixed as none"):
        refuse_changes(UserSettings(memory="episodic"), model)
    asked = UserSettings(memory="none", keep=5)
    with pytest.raises(ConfigError, match=re.escape("'keep' is for memory 'episodic'")):
        first(asked, PHOTOS, 1, choose(asked, PHOTOS, True))
    with pytest.raises(ConfigError, match="generators do not make photos"):
        choose(UserSettings(memory="generative", backbone=PRETRAINED), PHOTOS, True)
    words = "\n".join(describe(for_task(model, UserSettings(), 100), "pets", ["cat", "dog"], [9, 90], 4, None))
    assert "one pass over the images; nothing is trained" in words
    assert "epochs" not in words
