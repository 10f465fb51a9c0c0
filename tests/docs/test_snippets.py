"""What README and pages show is run, in order, in one folder: a reader's own, with fewer images and epochs."""

from __future__ import annotations

import ast
import contextlib
import shutil
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.folders import images, write
from tests.support.pages import PAGES, TOP, blocks, follow, name, printed
from torch import nn

SMALL = " --epochs 1 --scenario.per_class 12 --model.width 8 --runtime.threads 1"
RUN = 'lockgate.run({"preset": "short", "method": "ccgn", "dataset": "digits"}'
LESS = '"epochs": 1, "scenario": {"per_class": 12}, "model": {"width": 8}'
MORE: dict[str, dict[str, str]] = {
    "README.md": {},
    "docs/quickstart.md": {"run --dataset digits": f"run --dataset digits{SMALL}", RUN: f"{RUN[:-1]}, {LESS}}}"},
    "docs/deploy.md": {},
    "docs/first_ten_minutes.md": {
        "run --dataset digits": f"run --dataset digits{SMALL}",
        "range(100)": "range(12)",
        "/42.png": "/2.png",
        "--epochs 8": "--epochs 1 --width 8",
    },
    "docs/sparse.md": {},
    "docs/sklearn.md": {"epochs=10": "epochs=1, width=8"},
    "docs/own.md": {"tasks=5": "tasks=1", '"epochs": 5': '"epochs": 1, "model": {"width": 8}'},
    "docs/own_network.md": {'"data_dir": "photos"}': '"data_dir": "photos", "epochs": 1, "tasks": 2}'},
}
"""Pages with blocks that are run, in this order, and what a test makes smaller in them."""
CLASSES = ["a", "b"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, str]]]:
    """By page, what was typed with what was printed."""
    folder = tmp_path_factory.mktemp("reader")
    for example in (TOP / "examples").glob("*.py"):
        shutil.copy(example, folder)
    for part, count in (("train", 12), ("test", 3)):
        write(folder / "photos" / part, dict.fromkeys("abcd", count))
    done = {}
    with contextlib.chdir(folder):
        for page, smaller in MORE.items():
            done[page] = follow(TOP / page, _names(page), smaller)
    return done


def _names(page: str) -> dict[str, Any]:
    """What a page takes for granted that its reader has: images and their labels, or a network."""
    if page == "docs/sparse.md":
        return {"images": torch.zeros((2, 1, 8, 8), dtype=torch.uint8)}
    if page == "docs/deploy.md":
        return {"images": np.zeros((2, 1, 8, 8), dtype=np.uint8)}
    if page == "docs/own_network.md":
        layers = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        return {"my_module": nn.Sequential(*layers, nn.Linear(8, 10))}
    return {"images": np.concatenate([images(name, 9) for name in CLASSES]), "labels": np.repeat(CLASSES, 9)}


def test_every_page_with_blocks_to_run_is_run() -> None:
    to_run = {name(page) for page in PAGES if blocks(page, "python", "sh")}
    assert to_run == {*MORE, "docs/tutorial.md", "docs/photos.md"}, "tests of their own run the others"


def test_readme_learns_two_tasks_and_the_first_does_not_move(log: dict[str, list[tuple[str, str]]]) -> None:
    ((typed, said),) = log["README.md"]
    assert len([line for line in typed.splitlines() if line]) <= 11
    last = said.splitlines()[-1]
    assert last.startswith("bit-equal: True accuracy: 0.9")


def test_quickstart_does_what_it_says(log: dict[str, list[tuple[str, str]]]) -> None:
    done = log["docs/quickstart.md"]
    assert "audit passed" in printed(done, "lockgate audit")[0]
    assert len(printed(done, "lockgate run")) == 3
    (python,) = printed(done, "import lockgate")
    assert "'event': 'task'" in python
    assert "audit passed" in python


def test_the_first_ten_minutes_end_in_a_table(log: dict[str, list[tuple[str, str]]]) -> None:
    done = log["docs/first_ten_minutes.md"]
    assert [said.startswith("audit passed") for said in printed(done, "lockgate audit")] == [True, True]
    assert len(printed(done, "lockgate predict")[0].splitlines()) == 3
    typed, said = done[-1]
    assert "pandas" in typed
    assert said.splitlines()[0].split() == ["accuracy,", "task", "given", "forgetting", "seconds"]
    assert [line.split()[0] for line in said.splitlines()[1:3]] == ["demo", "near"]


def test_an_exported_file_names_the_classes_of_its_answers(log: dict[str, list[tuple[str, str]]]) -> None:
    said = log["docs/deploy.md"][-1][1]
    assert len(ast.literal_eval(said)) == 2, "one for each image"


def test_every_other_page_came_to_its_end(log: dict[str, list[tuple[str, str]]]) -> None:
    assert {page: len(done) > 0 for page, done in log.items()} == dict.fromkeys(MORE, True)
