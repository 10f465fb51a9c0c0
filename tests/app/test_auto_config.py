"""Choices from the images: as the module's table says; what the first task fixed stays."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lockgate.app.auto_config import first, for_task, refuse_changes
from lockgate.app.describing import describe
from lockgate.app.start import METHOD_OF_MEMORY, choose
from lockgate.app.user_settings import UserSettings, checked
from lockgate.data.task_images import ImageStats
from lockgate.errors import ConfigError


@pytest.mark.parametrize(("side", "size"), [(5, 8), (8, 8), (13, 12), (28, 28), (32, 32), (500, 32)])
def test_the_size_follows_the_images(side: int, size: int) -> None:
    assert first(UserSettings(), ImageStats(side, False), 1).data.image_size == size
    assert first(UserSettings(size=20), ImageStats(side, False), 1).data.image_size == 20


@pytest.mark.parametrize("grey", [True, False])
@pytest.mark.parametrize("memory", [None, *METHOD_OF_MEMORY])
def test_channels_follow_the_images_and_the_method_the_memory(grey: bool, memory: str | None) -> None:
    made = first(UserSettings(memory=memory, seed=4), ImageStats(32, grey), 2)  # type: ignore[arg-type]
    assert made.data.greyscale == grey
    assert made.method == METHOD_OF_MEMORY[memory or "episodic"]
    assert (made.seed, made.runtime.threads) == (4, 2)
    assert made.options["grow"] > 0, "nobody knows how many tasks will come"
    assert made.options.get("inference") == (None if memory == "none" else "joint")


@pytest.mark.parametrize(("images", "batch", "epochs"), [(20, 16, 40), (960, 16, 10), (1000, 32, 20), (50_000, 64, 8)])
def test_the_schedule_follows_the_number_of_images(images: int, batch: int, epochs: int) -> None:
    model = first(UserSettings(), ImageStats(32, False), 1)
    schedule = for_task(model, UserSettings(), images)
    assert (schedule.optim.batch_size, schedule.epochs) == (batch, epochs)
    assert replace(schedule, epochs=model.epochs, optim=model.optim, options=model.options) == model
    asked = for_task(model, UserSettings(epochs=10, batch_size=5, device="cpu"), images)
    assert (asked.epochs, asked.optim.batch_size, asked.runtime.accelerator) == (10, 5, "cpu")


def test_what_was_fixed_is_refused_when_changed_all_of_it_at_once_and_taken_when_the_same() -> None:
    model = first(UserSettings(), ImageStats(32, False), 1)
    same = UserSettings(
        memory="episodic", size=32, backbone="simple_cnn", keep=500, seed=0, options={"sparsity_warmup": "loss"}
    )
    refuse_changes(same, model)
    other = UserSettings("none", 16, "mlp", 3, 9, 1, {"sparsity": 0.1})
    with pytest.raises(ConfigError) as error:
        refuse_changes(other, model)
    named = [problem.split("'")[1] for problem in error.value.problems]
    assert named == ["memory", "size", "backbone", "width", "keep", "seed", "options.sparsity"]


def test_mistakes_are_named_as_in_a_config() -> None:
    with pytest.raises(ConfigError, match="'memory' must be one of none, episodic, generative"):
        checked(UserSettings(memory="elephant"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="backbone"):
        first(UserSettings(backbone="nothing"), ImageStats(8, True), 1)
    with pytest.raises(ConfigError, match=r"options\.sparsitty"):
        first(UserSettings(options={"sparsitty": 1}), ImageStats(8, True), 1)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (UserSettings(keep=0), "'keep' must be at least 1. Got 0 instead; to keep no images, choose memory 'none' or"),
        (
            UserSettings(keep=-3),
            "'keep' must be at least 1. Got -3 instead; to keep no images, choose memory 'none' or",
        ),
        (UserSettings(memory="none", keep=5), "'keep' is for memory 'episodic'. Got 5 with memory 'none' instead"),
        (
            UserSettings(memory="generative", keep=0),
            "'keep' is for memory 'episodic'. Got 0 with memory 'generative' instead",
        ),
        (
            UserSettings(keep=5, options={"buffer": 20}),
            "'keep' and 'options.buffer' are one number. Got 5 and 20 instead",
        ),
        (UserSettings(size=0), "'data.image_size' must be at least 4 and at most 1024. Got 0 instead"),
        (UserSettings(seed=-1), "'seed' must be at least 0. Got -1 instead"),
        (UserSettings(backbone=""), "backbone"),
    ],
)
def test_a_setting_is_refused_rather_than_passed_over(settings: UserSettings, problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        first(settings, ImageStats(8, True), 1)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (UserSettings(epochs=0), "'epochs' must be at least 1. Got 0 instead"),
        (UserSettings(batch_size=0), "'optim.batch_size' must be at least 1. Got 0 instead"),
    ],
)
def test_so_is_a_setting_of_the_schedule(settings: UserSettings, problem: str) -> None:
    with pytest.raises(ConfigError, match="has 1 problem") as error:
        for_task(first(UserSettings(), ImageStats(8, True), 1), settings, 100)
    assert problem in str(error.value)


def test_the_images_to_keep_are_as_many_as_was_said() -> None:
    assert first(UserSettings(), ImageStats(8, True), 1).options["buffer"] == 500
    assert first(UserSettings(keep=1), ImageStats(8, True), 1).options["buffer"] == 1
    assert first(UserSettings(keep=7, options={"buffer": 7}), ImageStats(8, True), 1).options["buffer"] == 7
    none = first(UserSettings(memory="none"), ImageStats(8, True), 1)
    refuse_changes(UserSettings(memory="none"), none)
    with pytest.raises(ConfigError, match=r"'keep' was fixed as 0 when the model was made\. Got 5 instead"):
        refuse_changes(UserSettings(keep=5), none)


def test_choices_are_described_in_words() -> None:
    schedule = for_task(first(UserSettings(), ImageStats(9, True), 1), UserSettings(), 100)
    start = choose(UserSettings(), ImageStats(9, True), True)
    text = "\n".join(describe(schedule, "pets", ["cat", "dog"], [10, 90], 32, start))
    for part in ("100 images of 2 classes (cat, dog)", "8x8, grey", "up to 500 of your images", "10 to 90", "32 test"):
        assert part in text
    later = "\n".join(describe(schedule, "pets", ["cat", "dog"], [50, 50], 0, None))
    assert "network" not in later
    assert "differ" not in later
    assert "probes" not in later
