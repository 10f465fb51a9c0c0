"""A task that ends at chance is noticed: on the screen, in the summary, on the page."""

from __future__ import annotations

import pytest
from tests.support import tiny

from lockgate.evaluation.chance import at_chance
from lockgate.report.html import write
from lockgate.report.terminal import matrix_text
from lockgate.runs.run import run


@pytest.mark.parametrize(
    ("right", "classes", "images", "chance"),
    [
        (0.5, 2, 100, True),
        (0.59, 2, 100, True),  # two deviations of 0.05
        (0.61, 2, 100, False),
        (0.2, 2, 100, True),
        (0.15, 10, 100, True),
        (0.17, 10, 100, False),
        (0.5, 2, 19, False),  # too few to tell
        (1.0, 1, 100, False),  # one class: nothing to learn
    ],
)
def test_what_guessing_could_have_got(right, classes, images, chance):
    assert at_chance(right, classes, images) == chance


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
