"""Execute the notebooks and keep what they show: python tools/run_notebooks.py NOTEBOOK...  (`make notebooks`)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbclient
import nbformat

LONGEST = 1800
"""Seconds that a cell may take."""


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a fresh kernel, which stands in an empty folder; raises where a cell does."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        nbclient.NotebookClient(notebook, timeout=LONGEST, coalesce_streams=True, resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it was run: another at each time
    return notebook


if __name__ == "__main__":
    for name in sys.argv[1:]:
        nbformat.write(executed(Path(name)), name)
