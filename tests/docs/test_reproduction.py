"""REPRODUCTION.md and the figure in the README are what their command writes from the results in this repository."""

from __future__ import annotations

from pathlib import Path

from lockgate.cli.main import main

TOP = Path(__file__).parents[2]


def test_page_and_figure_are_what_the_kept_results_say(tmp_path: Path) -> None:
    assert main(["reproduce", "all", "--no-run", "--results", str(TOP / "results"), "--root", str(tmp_path)]) == 0
    written, committed = ((folder / "REPRODUCTION.md").read_text() for folder in (tmp_path, TOP))
    remedy = "write it anew: lockgate reproduce all --no-run --results results, then copy it from --root"
    assert committed == written, remedy
    figure = "write it anew too: docs/episodic.svg is episodic-mnist.svg of --root"
    assert (TOP / "docs/episodic.svg").read_text() == (tmp_path / "episodic-mnist.svg").read_text(), figure
