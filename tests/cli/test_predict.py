"""`lockgate predict` on many images, from standard input, by either form of the network."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from tests.support.folders import images, teach, write

from lockgate import ContinualClassifier
from lockgate.app.predict import look, sources
from lockgate.app.trained import FEWEST, WORTH_COMPILING, Form, open_trained
from lockgate.inference.compile import compile_learner
from lockgate.types import Examples

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """What comes from standard input."""

    def give(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def test_an_image_comes_from_standard_input(command: Command, taught: Path, typed: Callable[[bytes], None]) -> None:
    file = taught / "pets" / "cat" / "000.png"
    typed(file.read_bytes())
    code, out, err = command("predict", taught / "model", "-", "--json")
    assert (code, err) == (0, "")
    (found,) = json.loads(out)
    (same,) = json.loads(command("predict", taught / "model", file, "--json")[1])
    assert found["image"] == "-"
    assert [answer["class"] for answer in found["answers"]] == [answer["class"] for answer in same["answers"]]


def test_names_of_files_come_from_standard_input(
    command: Command, taught: Path, typed: Callable[[bytes], None]
) -> None:
    files = sorted((taught / "pets").rglob("*.png"))
    typed("".join(f"{file}\n" for file in files).encode() + b"\nnowhere.png\n")
    code, out, err = command("predict", taught / "model", "-", "--json", "--batch=5")
    assert code == 1
    assert [item["image"] for item in json.loads(out)] == [*map(str, files), "nowhere.png"]
    assert "nowhere.png" in err


@pytest.mark.parametrize(
    ("data", "words", "message"),
    [
        (b"", ["-"], "There are no images in what came from standard input"),
        (b"\x89PNG and no more", ["-"], "What came from standard input is not an image"),
        (b"", ["-", "pets"], "Standard input ('-') stands alone"),
    ],
)
def test_what_is_no_image_is_said_so(
    command: Command, taught: Path, typed: Callable[[bytes], None], data: bytes, words: list[str], message: str
) -> None:
    typed(data)
    code, out, err = command("predict", taught / "model", *words)
    assert (code, out) == (1, "")
    assert message in err


def test_words_fit_what_was_answered(
    command: Command, taught: Path, typed: Callable[[bytes], None], tmp_path: Path
) -> None:
    (tmp_path / "note.png").write_text("no image")
    typed(b"")
    assert "There are no images in what came from standard input." in command("predict", taught / "model", "-")[2]
    typed(str(tmp_path / "note.png").encode())
    code, _, err = command("predict", taught / "model", "-")
    assert code == 1
    assert "note.png: cannot identify image file, which is of no kind that is known. Repair it" in err
    assert "object at" not in err, "nothing of how it is read"
    assert "answered by" not in err, "nothing was"
    typed(str(min((taught / "pets").rglob("*.png"))).encode())
    assert "1 image, answered by the compiled form" in command("predict", taught / "model", "-")[2]


def test_answers_come_before_all_images_are_read(taught: Path) -> None:
    asked = []

    def endless() -> Iterator[Path]:
        while True:
            asked.append(taught / "pets" / "cat" / "000.png")
            yield asked[-1]

    seen = look(open_trained(taught / "model"), endless(), None, 1, batch=4)
    next(seen)
    assert len(asked) == 4
    assert sources([taught / "pets"])[1] == 24


def test_of_images_that_are_there_ever_more_are_read_ahead(taught: Path) -> None:
    asked = []

    def counted() -> Iterator[Path]:
        while True:
            asked.append(taught / "pets" / "cat" / "000.png")
            yield asked[-1]

    trained, ahead = open_trained(taught / "model"), {}
    for form in ("exact", "compiled"):
        asked.clear()
        seen = look(trained, counted(), None, 1, cast(Form, form))
        ahead[form] = [len(asked) for _ in zip(range(1537), seen, strict=False)][::512]
    assert ahead == {"exact": [512, 1024, 1536, 2048], "compiled": [512, 1536, 1536, 3584]}


def test_batches_change_neither_answers_nor_the_table(command: Command, taught: Path) -> None:
    whole = command("predict", taught / "model", taught / "pets", "--exact")[1].splitlines()
    parts = command("predict", taught / "model", taught / "pets", "--exact", "--batch=3")[1].splitlines()
    assert [line.split() for line in whole] == [line.split() for line in parts]
    assert len(whole) == 25


def test_the_compiled_form_answers_many_images_and_the_promise_is_about_the_other(
    command: Command, taught: Path
) -> None:
    write(taught / "many", {"cat": WORTH_COMPILING}, seed=3)
    code, out, err = command("predict", taught / "model", taught / "many")
    assert code == 0
    assert f"{WORTH_COMPILING} images, answered by the compiled form; the promise is about --exact." in err
    exact = command("predict", taught / "model", taught / "many", "--exact")
    assert exact[2] == ""
    assert [line.split()[:3] for line in out.splitlines()] == [line.split()[:3] for line in exact[1].splitlines()]
    assert command("predict", taught / "model", taught / "many", "--quiet")[2] == ""


def test_both_forms_agree_and_the_exact_one_never_changes(tmp_path: Path) -> None:
    for name, classes in (("pets", ("cat", "dog")), ("tools", ("axe", "saw"))):
        write(tmp_path / name, dict.fromkeys(classes, 12))
    teach(tmp_path / "model", tmp_path / "pets")
    x = np.concatenate([images(name, 20, 5) for name in ("cat", "dog")])
    model = ContinualClassifier.load(tmp_path / "model")
    before, fast = model.predict_proba(x, "pets", exact=True), model.predict_proba(x, "pets")
    assert np.allclose(before, fast, atol=1e-5)
    assert open_trained(tmp_path / "model").form_for(len(x)) == "compiled"
    teach(tmp_path / "model", tmp_path / "tools")
    again = ContinualClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(x, "pets", exact=True)[:, :2], before)
    assert np.array_equal(again.predict(x), again.predict(x, exact=True))


def test_probes_show_the_compiled_form_which_filters_are_seldom_needed(tmp_path: Path) -> None:
    write(tmp_path / "pets", dict.fromkeys(("cat", "dog"), 80))
    teach(tmp_path / "model", tmp_path / "pets", probes=FEWEST)
    trained = open_trained(tmp_path / "model")
    assert sum(map(len, trained.tests)) >= FEWEST
    x, probes = torch.from_numpy(images("cat", 40, 5))[:, None], torch.cat([kept.x for kept in trained.tests])
    shown = compile_learner(trained.learner, probes).predict(x, 0)
    assert trained.compiled is not None
    assert torch.equal(trained.compiled.predict(x, 0), shown)
    assert torch.allclose(trained.probabilities(x, 0), trained.probabilities(x, 0, "compiled"), atol=1e-5)
    few = replace(trained, find_tests=lambda: tuple(Examples(k.x[:1], k.y[:1], k.task[:1]) for k in trained.tests))
    assert few.compiled is not None, "too few to say what is seldom: compiled without them"


def test_few_images_and_methods_without_a_compiled_form_are_asked_as_they_are(taught: Path) -> None:
    trained = open_trained(taught / "model")
    assert trained.form_for(WORTH_COMPILING - 1) == "exact"
    x = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    assert torch.equal(trained.probabilities(x, 0), trained.learner.predict(x, 0).softmax(1) @ torch.eye(2, 4))
