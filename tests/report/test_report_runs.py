"""Several runs on one page."""

from __future__ import annotations

import re
from html import unescape

from lockgate.cli import main
from lockgate.report import runs_page


def test_runs_stand_side_by_side(make_run, tmp_path):
    folders = [make_run(name="first"), make_run(name="second", seed=7, class_incremental=None, inference=None)]
    path = runs_page.write(folders, tmp_path / "both.html")
    html = path.read_text(encoding="utf-8")
    text = " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())
    assert "2 runs" in text
    for name in ("first", "second"):
        assert name in text
    assert html.count("<svg") == 2
    assert re.search(r"second \S+ \S+ 7 ", text)
    assert not re.search(r'(src|href)="(?!data:|#)', html)


def test_the_command_writes_it_beside_the_first(make_run, capsys):
    folders = [make_run(name="first"), make_run(name="second")]
    assert main(["report", *map(str, folders)]) == 0
    assert (folders[0].parent / "comparison.html").is_file()
    assert "comparison.html" in capsys.readouterr().out
