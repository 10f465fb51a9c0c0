"""REPRODUCTION.md, and table and figure of the README, are what their command writes from the results here."""

from __future__ import annotations

import shutil
from pathlib import Path

from lockgate.cli.main import main

TOP = Path(__file__).parents[2]
REMEDY = "write it anew: make tables"


def test_pages_and_figure_are_what_the_kept_results_say(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    shutil.copyfile(TOP / "README.md", readme)
    words = ["--no-run", "--results", str(TOP / "results"), "--root", str(tmp_path), "--readme", str(readme)]
    assert main(["reproduce", "all", *words]) == 0
    for name in ("REPRODUCTION.md", "README.md"):
        assert (TOP / name).read_text() == (tmp_path / name).read_text(), REMEDY
    assert (TOP / "docs/over_tasks.svg").read_text() == (tmp_path / "over-tasks.svg").read_text(), REMEDY
