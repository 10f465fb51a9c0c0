"""The tutorial, word for word: every block of commands and of Python, in order, from an empty folder."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.docs.close import close, differences
from tests.support.pages import TOP, follow, printed

TUTORIAL = TOP / "docs" / "tutorial.md"


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[str, str]]]:
    """What was typed, with what was printed."""
    folder: Path = tmp_path_factory.mktemp("empty")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with contextlib.chdir(folder):
        yield follow(TUTORIAL, {})
    torch.set_num_threads(threads)


def test_three_tasks_leave_old_answers_bit_equal_and_the_model_good(transcript: list[tuple[str, str]]) -> None:
    learnt = printed(transcript, "lockgate learn")
    assert len(learnt) == 4, "three, and the last once more after it was taken back"
    assert "logits of 2 past tasks are bit-equal" in learnt[-1]
    assert "No task given" in learnt[-1]
    assert learnt[2].endswith(learnt[3]), "the same numbers again, to the last digit"
    assert len([typed for typed, _ in transcript if typed.startswith("cmp ")]) == 3, "cmp fails where a bit differs"
    assert "the logits of 3 tasks are bit-equal" in printed(transcript, "lockgate audit")[0]
    assert "3 tasks, 10 classes" in printed(transcript, "lockgate inspect")[0]


def test_the_model_knows_images_it_has_not_seen(transcript: list[tuple[str, str]]) -> None:
    text = next(text for typed, text in transcript if "unseen images" in text)
    scores = [[float(number) for number in re.findall(r"0\.\d+|1\.000", line)] for line in text.splitlines()]
    assert len(scores) == 3
    for given, found in scores:
        assert given > 0.93
        assert found > 0.75


def test_every_number_shown_is_what_a_fresh_run_prints_as_far_as_is_promised(
    transcript: list[tuple[str, str]],
) -> None:
    everything = "\n".join(text for _, text in transcript)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", TUTORIAL.read_text(), re.M | re.S)
    plain = [block for language, block in blocks if not language]
    shown = [block for block in plain if not block.startswith("lockgate ")]  # those are commands that do not end
    assert len(shown) == 5
    for block in shown:
        assert differences(block, everything) == []


def test_a_number_that_is_not_what_is_printed_is_found() -> None:
    assert close("low 4 576 0.983 261,451 14.1 %", "low 4 576 0.900 300,000 16.0 %")
    assert not close("low 4 576 0.983", "low 4 577 0.983"), "a count is a count"
    assert not close("low 4 576 0.983", "low 4 576 0.800"), "an accuracy further away than promised"
    assert not close("Learnt 'low': 0.9", "Learnt 'high': 0.9")


def test_the_tutorial_names_what_there_is() -> None:
    text = TUTORIAL.read_text()
    for file in ("model.yaml", "learner.safetensors", "probes.safetensors", "records.jsonl"):
        assert file in text
