"""A task that ends at chance is noticed: on the screen, in the summary, on the page."""

from __future__ import annotations

import pytest
from tests.support import tiny

from lockgate.evaluation.chance import at_chance
from lockgate.report.html import write
from lockgate.report.terminal import matrix_text
from lockgate.runs.run import run


@pytest.mark.parametrize(
    ("right", "images", "chance"),
    [
        ([25, 25], [50, 50], True),
        ([30, 29], [50, 50], True),  # two deviations of 0.05
        ([31, 30], [50, 50], False),
        ([10, 10], [50, 50], True),
        ([50, 0], [50, 50], True),
        ([2, 1, 2, 1, 2, 1, 2, 1, 2, 1], [10] * 10, True),
        ([2, 2, 2, 2, 2, 2, 2, 1, 1, 1], [10] * 10, False),
        ([5, 5], [10, 9], False),  # too few to tell
        ([100], [100], False),  # one class: nothing to learn
        ([100, 0], [100, 0], False),  # of what is held out
        ([90, 0], [90, 10], True),  # always the largest class: 0.9, and nothing learnt
        ([60, 6], [90, 10], True),
        ([78, 9], [90, 10], False),  # 0.87 is below 0.9, but both classes are known
        ([47, 48, 0], [50, 50, 1], False),  # of a class of one image nothing can be said
    ],
)
def test_what_guessing_could_have_got(right, images, chance):
    assert at_chance(right, images) == chance


@pytest.mark.parametrize(("method", "learns"), [("finetune", False), ("finetune", True), ("joint", False)])
def test_a_run_says_which_tasks_were_not_learnt(method, learns, tmp_path, capsys):
    experiment = tiny.experiment(
        method,
        dataset="digits" if learns else "synthetic",
        epochs=5 if learns else 1,
        tasks=5 if learns else 2,
        data={"synthetic_classes": 4, "synthetic_per_class": 60},
        scenario={"held_out": 0.3},
        optim={"lr": 0.01 if learns else 1e-12, "batch_size": 16},
        model={"width": 16},
    )
    summary = run(experiment, tmp_path / "run")
    told = capsys.readouterr().err
    assert set(summary["unlearnt"]) == (set() if learns else {"0", "1"})
    assert ("task 1 was NOT LEARNT" in told) == (not learns)
    page = write(tmp_path / "run").read_text()
    for text in (matrix_text(summary), page):
        assert ("no better than guessing: task 1 (" in text) == (not learns)
