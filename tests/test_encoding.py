"""Text is UTF-8 on every system: nothing is read or written in the encoding that a machine happens to have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "lockgate"


def _without_encoding(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls of `read_text`, `write_text`, and of `open` in a text mode, that do not say which encoding."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or any(keyword.arg == "encoding" for keyword in call.keywords):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        modes = [word.value for word in call.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
        text = name == "open" and any(set(mode) <= set("rwxa+t") for mode in modes)
        if name in ("read_text", "write_text") or text:
            yield call


def test_every_text_file_is_opened_as_utf8() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{call.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for call in _without_encoding(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_a_call_without_encoding_is_found() -> None:
    for line in ("path.read_text()", "path.write_text(text)", "path.open('w')", "open(path, 'r')"):
        assert list(_without_encoding(ast.parse(line))), line
    for line in ("path.read_text(encoding='utf-8')", "path.open('rb')", "logger.open(experiment)"):
        assert not list(_without_encoding(ast.parse(line))), line
