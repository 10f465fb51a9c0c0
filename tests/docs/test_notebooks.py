"""Notebooks: what they show was shown by running them, and they still run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.pages import TOP

NOTEBOOKS = sorted((TOP / "notebooks").glob("*.ipynb"))
LARGEST = 60_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_shows_what_its_cells_came_to_in_order(path: Path) -> None:
    assert path.stat().st_size < LARGEST
    code = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert outputs
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result", "display_data"}
    assert not [output for output in outputs if output.get("name") == "stderr"]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    """Its own assertions among its cells: bits of the past, which did not move."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install 'lockgate[notebooks]'")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}).execute()
