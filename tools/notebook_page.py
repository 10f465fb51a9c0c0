"""A notebook as Markdown: its text, its code and what the code showed. Needs nothing but JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any


def markdown_of(notebook: str) -> str:
    """The page of a notebook, given as the text of its file."""
    return "\n".join(part for cell in json.loads(notebook)["cells"] for part in _cell(cell)) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield f"{source}\n"
        return
    yield f"```python\n{source}\n```\n"
    for output in cell["outputs"]:
        yield from _output(output)


def _output(output: dict[str, Any]) -> Iterator[str]:
    """Drawings as they are (SVG may stand in Markdown), everything else as the text it has."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        yield _shrinkable("".join(data["image/svg+xml"])) + "\n"
    elif text := "".join(output.get("text", data.get("text/plain", ""))).rstrip():
        yield f"```text\n{text}\n```\n"


def _shrinkable(svg: str) -> str:
    """A drawing of so many pixels as one that a narrow page makes smaller, instead of cutting it off."""
    if "viewBox" in svg:
        return svg
    return re.sub(r'width="(\d+)" height="(\d+)"', r'viewBox="0 0 \1 \2" width="\1"', svg, count=1)
