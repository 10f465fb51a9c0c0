"""Pages and files agree: links lead to files and headings, tables name what there is. No network."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.support.pages import PAGES, TOP, name, prose

from lockgate.methods import METHODS
from lockgate.version import __version__

_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _anchors(page: Path) -> set[str]:
    """Of its headings, as code hosts and mkdocs name them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.M)
    plain = [re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            assert target.startswith(("https://", "http://127.0.0.1", "mailto:")), target
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name(page)}: {target}"
        assert file.is_relative_to(TOP), target
        if anchor:
            assert anchor in _anchors(file), f"{name(page)}: {target}"


def test_every_method_is_in_the_table_of_methods() -> None:
    text = (TOP / "docs/methods/index.md").read_text()
    assert [method for method in METHODS if f"`{method}`" not in text] == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.parent.name == "methods" and page.stem != "index"], ids=name
)
def test_every_page_of_a_method_has_an_equation_and_how_to_replicate_it(page: Path) -> None:
    text, _, replicate = page.read_text().partition("\n## To replicate\n")
    assert re.search(r"`[^`]*(=|<-|argm|minimise|E\[)[^`]*`", text), "an equation"
    assert "lockgate run " in replicate


def test_the_glossary_is_in_order_and_has_the_words_of_the_drawing_and_of_the_readme() -> None:
    rows = re.findall(r"^\| ([^|]+) \| [^|]", (TOP / "docs/glossary.md").read_text(), re.M)[1:]
    assert [row.lower().strip("`") for row in rows] == sorted(row.lower().strip("`") for row in rows)
    words = {word.strip("` ").lower() for row in rows for word in row.split(",")}
    wanted = (
        "gate lock seal stream head task audit probe promise filter budget capacity read-out relevance preset buffer "
        "companion model experiment ub c extra seed"
    )
    assert not set(wanted.split()) - words


def test_every_page_that_is_put_into_an_order_is_there() -> None:
    text = (TOP / "mkdocs.yml").read_text()
    nav = yaml.safe_load(text)["nav"]
    listed = [page for entry in nav if isinstance(entry, dict) for pages in entry.values() for page in pages]
    made = {"reproduction.md", "changelog.md", "contributing.md", "security.md"}
    assert [page for page in listed if page not in made and not (TOP / "docs" / page).is_file()] == []


@pytest.mark.parametrize(
    "file", [*TOP.glob(".github/**/*.yml"), TOP / ".pre-commit-config.yaml", TOP / "CITATION.cff"], ids=name
)
def test_files_for_a_code_host_can_be_read(file: Path) -> None:
    assert yaml.safe_load(file.read_text())


def test_the_workflow_calls_what_the_makefile_has() -> None:
    targets = set(re.findall(r"^(\w+):", (TOP / "Makefile").read_text(), re.M))
    jobs = yaml.safe_load((TOP / ".github/workflows/ci.yml").read_text())["jobs"]
    steps = [line for job in jobs.values() for step in job["steps"] for line in step.get("run", "").splitlines()]
    called = [found[1] for line in steps if (found := re.match(r"make (\w+)", line))]
    assert set(called) >= {"pytest", "docs", "slow"}
    assert set(called) <= targets
    assert "bash .ci/run" in steps
    assert (TOP / ".ci/run").read_text().endswith("\nmake test\n")


def test_pre_commit_does_what_make_check_does() -> None:
    (local,) = yaml.safe_load((TOP / ".pre-commit-config.yaml").read_text())["repos"]
    before = {" ".join(hook["entry"].removeprefix(".venv/bin/").split()[:2]) for hook in local["hooks"]}
    check = (TOP / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    done = {" ".join(words.split()[:2]) for words in re.findall(r"\$\(BIN\)/(.*)", check)}
    assert before == done


def test_the_citation_is_of_this_version() -> None:
    assert yaml.safe_load((TOP / "CITATION.cff").read_text())["version"] == __version__


def test_the_oldest_versions_are_those_that_are_allowed() -> None:
    """minimum-constraints.txt begins where pyproject.toml does: `torch>=2.5` is tried with 2.5.0."""
    wanted = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["dependencies"]
    oldest = dict(re.findall(r"^([\w-]+)==(\S+)$", (TOP / "minimum-constraints.txt").read_text(), re.M))
    section = (TOP / "docs/install.md").read_text().partition("## Oldest versions\n")[2].partition("\n##")[0]
    said = re.findall(r"\d[\d.]*\d|\d", section)
    for requirement in wanted:
        package, version = requirement.split(">=")
        assert f"{oldest[package]}.".startswith(f"{version}."), requirement
        assert version in said, f"{requirement}: docs/install.md"
