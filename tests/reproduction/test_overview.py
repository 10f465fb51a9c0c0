"""The small table of the README, from results and into its place."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from lockgate.cli.main import main
from lockgate.errors import LockgateError
from lockgate.reproduction.overview import BEGIN, COLUMNS, END, NOTHING, fill, overview
from lockgate.reproduction.results import Number, Result, ResultRow


def results(**numbers: dict[str, tuple[float, ...]]) -> list[Result]:
    """By column of the overview (`a` to `g`): numbers by row."""
    made = []
    for letter, (table, group, column) in zip("abcdefg", COLUMNS.values(), strict=True):
        rows = tuple(
            ResultRow(group, name, {column: Number(None, dict(enumerate(values)))}, (), (), ())
            for name, values in numbers.get(letter, {}).items()
        )
        made.append((table, rows))
    tables: dict[str, tuple[ResultRow, ...]] = {}
    for table, rows in made:
        tables[table] = (*tables.get(table, ()), *rows)
    return [
        Result(name, name, "", "short", "accuracy", lower_is_better=False, ranked=True, rows=rows, notes={})
        for name, rows in tables.items()
    ]


def test_rows_of_all_tables_meet_and_ours_come_last() -> None:
    text = overview(
        results(
            a={"ours, as printed": (0.9,), "Lockgate": (0.95,), "HAT": (0.9, 0.92), "EWC-On": ()},
            b={"Lockgate": (0.9,), "GDumb": (0.8,), "SVM on the stored images": (0.7,)},
            c={"HAT": (0.99,), "Lockgate": ()},
            d={"HAT": (), "Lockgate": ()},
        )
    )
    lines = text.splitlines()
    assert lines[0] == f"| | {' | '.join(list(COLUMNS)[:2])} |", "a column in which ours was not run compares nothing"
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:7]] == [
        "HAT",
        "GDumb",
        "ours, as printed",
        "**Lockgate**",
        "SVM on the stored images",
    ], "nor is EWC-On there, of which nothing was run"
    assert lines[2] == "| HAT | 0.910 ± 0.014 (2) |  |"
    assert lines[5] == "| **Lockgate** | **0.950 (1)** | **0.900 (1)** |"


def test_seeds_stand_in_the_head_where_all_have_as_many() -> None:
    lines = overview(
        results(
            a={"Lockgate": (0.9, 0.92), "HAT": (0.8, 0.8), "EWC-On": ()},
            b={"Lockgate": (0.9, 0.92), "ER": (0.8,)},
        )
    ).splitlines()
    given, not_given, *_ = COLUMNS
    assert lines[0] == f"| | {given} (2 seeds) | {not_given} |"
    assert lines[2] == "| HAT | 0.800 |  |", "seeds that agree have no spread"
    assert lines[3] == "| ER |  | 0.800 (1) |"
    assert lines[4] == "| **Lockgate** | **0.910 ± 0.014** | **0.910 ± 0.014 (2)** |"


def test_the_figure_is_shown_where_the_digits_were_run() -> None:
    assert "over_tasks.svg" in overview(results(a={"Lockgate": (0.9,)}))
    assert "over_tasks.svg" not in overview(results(d={"Lockgate": (0.9,)}))


def test_the_figure_has_the_mean_of_every_stage_over_seeds(tmp_path: Path) -> None:
    """Read off kept results, by hand: what pointers show over the lines of the picture."""
    kept = Path(__file__).parents[2] / "results"
    found = [json.loads(path.read_text()) for path in sorted(kept.glob("digits-er-ace-*/summary.json"))]
    stages = [[statistics.fmean(row) for row in one["class_incremental"]["matrix"]] for one in found]
    wanted = ", ".join(f"{statistics.fmean(values):.3f}" for values in zip(*stages, strict=True))
    words = ["reproduce", "digits", "--no-run", "--results", str(kept), "--root", str(tmp_path)]
    assert main(words) == 0
    assert f"ER-ACE: {wanted} ({len(found)} seeds)" in (tmp_path / "over-tasks.svg").read_text()


def test_where_nothing_was_run_it_says_so() -> None:
    assert overview(results(a={"HAT": (0.9,), "Lockgate": ()})) == NOTHING, "baselines alone compare nothing"


def test_a_page_keeps_everything_but_what_stood_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    fill(page, "new")
    fill(page, "newer")
    assert page.read_text() == f"before\n{BEGIN}\nnewer\n{END}\nafter\n"
    page.write_text(f"{END} {BEGIN}")
    with pytest.raises(LockgateError, match="no place for results"):
        fill(page, "new")
    assert page.read_text() == f"{END} {BEGIN}"


def test_the_page_wants_all_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "gates", "--no-run", "--root", str(tmp_path), "--readme", str(tmp_path / "README.md")]
    assert main(words) == 2
    assert "`lockgate reproduce all`" in capsys.readouterr().err
