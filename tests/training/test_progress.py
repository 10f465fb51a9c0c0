"""What a person sees: lines where there is no terminal, a bar where there is one, nothing from other ranks."""

from __future__ import annotations

import io
import sys

import pytest

from lockgate.training.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def walk(quiet: bool) -> None:
    with Progress(total=4, done=1, quiet=quiet) as progress:
        progress.stage("task 1/2")
        progress.step()
        progress.step("a note")
        progress.log("accuracy [bold]0.5[/bold]")


def test_without_a_terminal_only_the_lines_are_printed_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    walk(quiet=False)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "accuracy [bold]0.5[/bold]\n")


def test_on_a_terminal_there_is_a_bar_and_lines_are_not_taken_for_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    walk(quiet=False)
    text = terminal.getvalue()
    assert "task 1/2" in text
    assert "a note" in text
    assert "accuracy [bold]0.5[/bold]" in text


def test_other_ranks_are_silent(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    walk(quiet=True)
    assert capsys.readouterr() == ("", "")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    walk(quiet=True)
    assert terminal.getvalue() == ""
