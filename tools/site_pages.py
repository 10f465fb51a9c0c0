"""Hooks of mkdocs: pages that are made of other files of the repository, and links that lead out of ``docs/``.

README.md is the first page, so nothing is written twice. Links are written as they work in a checkout (and on a code
host); here those that leave ``docs/`` are led to the page made of their file, or said as a path where there is none.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

TOP = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))

from notebook_page import markdown_of  # noqa: E402
from settings_tables import tables  # noqa: E402

MADE = {
    "README.md": "index.md",
    "REPRODUCTION.md": "reproduction.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    **{f"examples/{path.name}": f"examples/{path.stem}.md" for path in sorted((TOP / "examples").glob("*.py"))},
    **{f"notebooks/{path.name}": f"notebooks/{path.stem}.md" for path in sorted((TOP / "notebooks").glob("*.ipynb"))},
}
"""Files of the repository with a page of their own, and where it is."""

_FILE_OF = {page: file for file, page in MADE.items()}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|!?\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put into the navigation what nobody put into an order."""
    nav: list[Any] = config.nav or []
    sections = {name: pages for entry in nav if isinstance(entry, dict) for name, pages in entry.items()}
    methods = sorted((TOP / "docs/methods").glob("*.md"), key=_own_first)
    sections["Methods"] += [f"methods/{path.name}" for path in methods]
    sections["Notebooks"] += [page for page in MADE.values() if page.startswith("notebooks/")]
    listed = {page for pages in sections.values() for page in pages}
    sections["Guides"] += [path.name for path in sorted((TOP / "docs").glob("*.md")) if path.name not in listed]
    sections["Guides"] += [{"Examples": [page for page in MADE.values() if page.startswith("examples/")]}]
    return config


def _own_first(path: Path) -> tuple[int, str]:
    """The list of methods, the paper's own, then all others by name."""
    first = ("index", "ccgn", "streams")
    return (first.index(path.stem) if path.stem in first else len(first), path.stem)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    for file, page in MADE.items():
        files.append(File.generated(config, page, content=_content(TOP / file)))
    return files


def _content(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return markdown_of(text)
    return f"# {path.name}\n\n```python\n{text}```\n" if path.suffix == ".py" else text


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead the links of a page to where things are on the site."""
    here = page.file.src_uri
    if here == "index.md":
        page.meta["hide"] = ["navigation"]  # a section of one page
    parts = _FENCE.split(markdown.replace("<!-- settings -->", tables()) if here == "api.md" else markdown)
    parts[::2] = [_LINK.sub(lambda found: _led(found, here), part) for part in parts[::2]]
    return "".join(parts)


def _led(found: re.Match[str], here: str) -> str:
    image, text, target = found.groups()
    text = _LINK.sub(lambda inner: _led(inner, here), text)
    if re.match(r"[a-z]+:|#", target):
        return f"{image}[{text}]({target})"
    path, _, anchor = target.partition("#")
    file = posixpath.normpath(posixpath.join(posixpath.dirname(_FILE_OF.get(here, f"docs/{here}")), path))
    place = MADE.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else None)
    if place is None:
        return text if file in text else f"{text} (`{file}`)"
    led = posixpath.relpath(place, posixpath.dirname(here) or ".")
    return f"{image}[{text}]({led}{'#' if anchor else ''}{anchor})"
