"""Every command that a page shows is understood: its flags are there, its settings are valid."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from tests.support.pages import PAGES, TOP, blocks, commands, name, prose, save

from lockgate.cli import flags
from lockgate.cli.main import _parser, main
from lockgate.reproduction.select.space import read_space

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


def _typed(program: str) -> list[tuple[str, str]]:
    """What pages tell their reader to type that begins so, in blocks or within a line, with the page."""
    found = []
    for page in PAGES:
        lines = [line for _, text in blocks(page, "", "sh") for line in text.splitlines()]
        lines += re.findall(r"(?<!`)`([^`\n]+)`", prose(page))
        found += [(name(page), line.partition("#")[0]) for line in lines if line.startswith(f"{program} ")]
    return found


def test_programs_of_this_repository_are_there_with_their_flags() -> None:
    typed = [
        (page, line, found[1]) for page, line in _typed("python") if (found := re.match(r"python (\S+\.py)", line))
    ]
    assert len(typed) > 15
    shared = "".join(path.read_text() for path in (TOP / "benchmarks").glob("*.py"))
    for page, line, file in typed:
        text = (TOP / file).read_text() + shared
        assert [flag for flag in re.findall(r"\s(--[\w-]+)", line) if f'"{flag}"' not in text] == [], f"{page}: {line}"


def test_targets_of_make_are_there() -> None:
    targets = set(re.findall(r"^(\w+):", (TOP / "Makefile").read_text(), re.M))
    for page, line in _typed("make"):
        assert line.split()[1] in targets, f"{page}: {line}"


def test_extras_that_pages_and_errors_name_are_there() -> None:
    extras = set(tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    sources = [*PAGES, *(TOP / "src").rglob("*.py")]
    named = {
        (extra, path.name)
        for path in sources
        for group in re.findall(r"pip install[^`\n]*(?:lockgate|\.)\[([\w,]+)\]", path.read_text())
        for extra in group.split(",")
    }
    assert {extra for extra, _ in named} >= {"serve", "onnx", "sweep", "pretrained"}
    assert [found for found in named if found[0] not in {*extras, "NAME"}] == []


def test_a_space_that_a_page_shows_can_be_read(tmp_path: Path) -> None:
    ((_, text),) = blocks(TOP / "docs" / "select.md", "yaml")
    (tmp_path / "space.yaml").write_text(text)
    assert "options.strength" in str(read_space("lwf", tmp_path / "space.yaml"))
