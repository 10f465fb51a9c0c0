"""`lockgate learn` with several folders, bad images, a schedule of the user's own: what is said, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.support.folders import write

from lockgate.app.auto_config import first, for_task
from lockgate.app.user_settings import UserSettings
from lockgate.data.task_images import ImageStats

Command = Callable[..., tuple[int, str, str]]
ONE = ["--width=8", "--epochs=1"]


def test_several_folders_are_several_tasks(command: Command, taught: Path) -> None:
    code, out, _ = command("learn", taught / "new", taught / "pets", taught / "tools", *ONE, "--json")
    assert code == 0
    found = json.loads(out)
    assert [[task["name"] for task in after["tasks"]] for after in found] == [["pets"], ["pets", "tools"]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pets", "pets"], "Two folders are called 'pets'"),
        (["pets", "other/beasts"], "'cat' is a class of 'pets' and of 'beasts'"),
        (["pets", "tools", "--name=both"], "'--name' names one task. Got 2 folders"),
        (["pets", "nowhere"], "nowhere is not a folder"),
        (["pets", "--most-bad=0.5"], "'--most-bad' is for '--skip-bad'"),
        (["pets", "--name="], "'name' must be 1 to 100 letters"),
        (["pets", "--name=../x/y"], "Got '../x/y' instead"),
        (["pets", "--name= pets"], "'name' must be"),
        (["pets", "--name=a\nb"], "'name' must be"),
        (["pets", "--most-bad=2", "--skip-bad"], "must be a number from 0 to 1. Got '2' instead."),
        (["pets", "--size=100000"], "must be a whole number from 4 to 1024. Got '100000' instead."),
        (["pets", "--lr=0"], "must be a number above 0 and at most 10"),
        (["pets", "--epoch=3"], "Unknown flag '--epoch'. Did you mean '--epochs'"),
        (["pets", "--augment=mirror"], "invalid choice: 'mirror'"),
    ],
)
def test_what_cannot_be_learnt_is_refused_before_anything_is(
    command: Command, taught: Path, words: list[str], message: str
) -> None:
    write(taught / "other" / "beasts", {"cat": 4, "yak": 4})
    places = [word if word.startswith("--") else taught / word for word in words]
    code, out, err = command("learn", taught / "new", *places)
    assert (code > 0, out) == (True, "")
    assert message in err
    assert not (taught / "new").exists()


def test_bad_images_are_left_out_and_named_if_they_are_few(command: Command, taught: Path) -> None:
    (taught / "pets" / "cat" / "torn.png").write_bytes(b"\x89PNG torn")
    code, _, err = command("learn", taught / "new", taught / "pets", *ONE)
    assert code == 1
    assert "torn.png" in err
    code, out, _ = command("learn", taught / "new", taught / "pets", *ONE, "--skip-bad")
    assert code == 0
    assert "left out, because they cannot be read: 1 images" in out
    assert "torn.png" in out
    assert "task 'pets': 24 images" in out
    (taught / "tools" / "axe" / "a.png").write_bytes(b"no picture")
    code, out, _ = command("learn", taught / "new", taught / "tools", *ONE, "--skip-bad", "--json", "--quiet")
    assert (code, len(json.loads(out)["skipped"])) == (0, 1)


def test_many_bad_images_are_refused_with_their_share(command: Command, taught: Path) -> None:
    for i in range(6):
        (taught / "pets" / "cat" / f"torn{i}.png").write_bytes(b"no picture")
    code, _, err = command("learn", taught / "new", taught / "pets", *ONE, "--skip-bad")
    assert code == 1
    assert "6 of 30 images" in err
    assert "wanted at most 10% to leave out" in err
    assert not (taught / "new").exists()
    assert command("learn", taught / "new", taught / "pets", *ONE, "--skip-bad", "--most-bad=0.3")[0] == 0


def test_the_schedule_of_a_task_is_the_users(command: Command, taught: Path) -> None:
    settings = UserSettings(epochs=4, lr=0.01, patience=3, augment="none")
    model = first(UserSettings(), ImageStats(28, True), 1)
    made = for_task(model, settings, 100)
    assert (made.optim.lr, made.options["sparsity_warmup"], made.augment.active) == (0.01, 3, False)
    flipped = for_task(model, UserSettings(augment="flip"), 100).augment
    assert (flipped.random_flip, flipped.random_translate) == (True, 2)
    assert for_task(model, UserSettings(), 100).optim.lr == model.optim.lr
    words = ["--epochs=1", "--lr=0.01", "--patience=0", "--augment=flip"]
    write(taught / "ships", {"ferry": 4, "tug": 4})
    code, _, err = command("learn", taught / "model", taught / "ships", *words, "--quiet")
    assert (code, err) == (0, ""), "each task may have its own"


def test_few_epochs_shorten_the_generator_too(command: Command) -> None:
    """A user who asks for one epoch is not made to wait for a thousand iterations."""
    model = first(UserSettings(memory="generative"), ImageStats(8, True), 1)
    whole, one = for_task(model, UserSettings(), 400), for_task(model, UserSettings(epochs=1), 400)
    assert whole.options["gan"]["iterations"] == 1000
    assert one.options["gan"]["iterations"] == round(1000 / whole.epochs)
    asked = UserSettings(epochs=1, options={"gan": {"iterations": 1000}})
    assert for_task(model, asked, 400).options["gan"]["iterations"] == 1000
    words = ["run", "--dataset=digits", "--method=ccgn-generative", "--print_config"]
    recipe, short = (yaml.safe_load(command(*words, *more)[1]) for more in ([], ["--epochs=1"]))
    assert short["options"]["gan"]["iterations"] == round(recipe["options"]["gan"]["iterations"] / recipe["epochs"])
    named = yaml.safe_load(command(*words, "--epochs=1", "--options.gan.iterations=700")[1])
    assert named["options"]["gan"]["iterations"] == 700
