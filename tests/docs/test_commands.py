"""Every command that a page shows is understood: its flags are there, its settings are valid."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.pages import PAGES, TOP, blocks, commands, name, save

from lockgate.cli import flags
from lockgate.cli.main import _parser, main

OTHERS = ("CHANGELOG.md", "performance.md")
"""Speaks of flags that are gone; is the output of programs."""


def _is_placeholder(word: str) -> bool:
    return word.isupper() or word in ("...", "X", "PRESET", "FILE.yaml") or word.endswith(".yaml")


def _shown() -> list[tuple[str, list[str]]]:
    return [(name(page), words) for page in PAGES if page.name not in OTHERS for words in commands(page)]


def test_flags_of_every_command_are_there() -> None:
    parser, known = _parser()
    for page, words in _shown():
        if "--help" in words or "--version" in words or words[0].isupper():
            continue
        assert words[0] in known, f"{page}: {words}"
        typed = words[: words.index(">")] if ">" in words else words
        bare = [word for word in typed if word not in ("...", "[flags]")]
        if len(bare) > 1 and not bare[1].startswith("["):  # `lockgate learn` within a sentence names the command only
            plain, _ = flags.take_options(bare)
            _, unknown = parser.parse_known_args(plain)
            assert not unknown, f"{page}: lockgate {' '.join(words)}"


def test_settings_of_every_run_are_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for example in (TOP / "examples").glob("*.py"):
        shutil.copy(example, tmp_path)
    for page in PAGES:
        for _, block in blocks(page, "python"):
            save(block)
    runs = [words for _, words in _shown() if words[0] == "run" and len(words) > 1]
    whole = [words for words in runs if not any(map(_is_placeholder, words)) and "folder" not in words]
    assert len(whole) > 15
    for words in whole:
        code = main([*words, *([] if "--print_config" in words else ["--print_config"])])
        assert code == 0, f"lockgate {' '.join(words)}: {capsys.readouterr().err}"
