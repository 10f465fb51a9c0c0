"""The site is built without a warning, and its pages ask the network for nothing."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from tests.support.pages import TOP


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = pytest.importorskip("mkdocs.config", reason="mkdocs is not installed: pip install 'lockgate[docs]'")
    from mkdocs.commands.build import build

    out = tmp_path_factory.mktemp("site")
    build(config.load_config(str(TOP / "mkdocs.yml"), strict=True, site_dir=str(out)))
    return out


def test_every_page_is_there(site: Path) -> None:
    names = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert {"index.html", "install.html", "api.html", "methods/ccgn.html", "reproduction.html"} <= names
    assert {f"methods/{path.stem}.html" for path in (TOP / "docs/methods").glob("*.md")} <= names
    assert {f"notebooks/{path.stem}.html" for path in (TOP / "notebooks").glob("*.ipynb")} <= names


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures are in the folder; links a reader follows may lead anywhere."""
    for page in site.rglob("*.html"):
        text = page.read_text()
        fetched = re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=[\"']?(\S+)", text)
        fetched += re.findall(r"<link[^>]*rel=[\"']?(?:stylesheet|preload|icon)[^>]*href=[\"']?(\S+)", text)
        assert [where for where in fetched if where.startswith(("http", "//"))] == [], page.name


def test_the_reference_has_every_public_name(site: Path) -> None:
    import lockgate

    text = (site / "api.html").read_text()
    names = [name for name in lockgate.__all__ if name != "__version__"]
    assert [name for name in names if f">{name}<" not in text] == []


def test_the_reference_has_every_setting_and_every_argument_of_a_classifier(site: Path) -> None:
    from lockgate import ContinualClassifier
    from lockgate.config import Experiment

    text = (site / "api.html").read_text()
    values = Experiment().to_dict()
    groups = {name: value for name, value in values.items() if isinstance(value, dict) and name != "options"}
    names = [f"{group}.{name}" for group, value in groups.items() for name in value]
    names += [name for name in values if name not in groups and name != "options"]
    names += list(inspect.signature(ContinualClassifier).parameters)
    assert len(names) > 60
    assert [name for name in names if f">{name}</code>" not in text] == []


def test_lists_are_lists(site: Path) -> None:
    """mkdocs wants an empty line before a list; without it, dashes run on in a paragraph, as no code host shows it."""
    for page in site.rglob("*.html"):
        run_on = re.findall(r"<p>(?:(?!</p>).)*?\n(?:- |\d\. )\S[^\n<]{0,40}", page.read_text(), re.S)
        assert run_on == [], page.name
