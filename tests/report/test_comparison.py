"""Several runs on one page."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from lockgate.cli.main import main
from lockgate.report import comparison


def test_runs_stand_side_by_side(make_run, tmp_path):
    folders = [make_run(name="first"), make_run(name="second", seed=7, class_incremental=None, inference=None)]
    path = comparison.write(folders, tmp_path / "both.html")
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


def test_a_run_has_the_name_of_its_folder_wherever_one_stands(make_run, tmp_path, monkeypatch):
    folders = [make_run(name="first"), make_run(name="second")]
    path = comparison.write(folders, tmp_path / "named.html")
    monkeypatch.chdir(folders[0])
    here = comparison.write([Path("."), folders[1]], tmp_path / "here.html")
    assert here.read_bytes() == path.read_bytes()


def test_one_run_has_its_own_page_wherever_it_is_written(make_run, tmp_path):
    folder = make_run()
    assert main(["report", str(folder)]) == main(["report", str(folder), "--out", str(tmp_path / "x.html")]) == 0
    assert (tmp_path / "x.html").read_bytes() == (folder / "report.html").read_bytes()


def test_a_page_that_has_no_place_is_an_error_with_a_remedy(make_run, tmp_path, capsys):
    assert main(["report", str(make_run()), "--out", str(tmp_path / "nowhere" / "x.html")]) == 1
    assert "a folder that exists" in capsys.readouterr().err
