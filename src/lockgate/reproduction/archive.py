"""What tables need of a finished run, apart from the run: a few small files that outlive its checkpoints.

A folder of them is a run folder without a model. It can be put under version control, so that every number of a table
can be traced and the table written anew where the runs are not.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from lockgate.reproduction.plan import folder_name, held, key
from lockgate.runs.directory import RunFolder

FILES = ("config.yaml", "macs.json", "gates.json", "pictures/gates.png", "summary.json")
"""The summary last, and first to go when a run is kept anew: with it, what is kept counts as whole."""


def keep(run: Path, results: Path) -> Path:
    """Copy the results of the finished ``run`` to a folder of its own in ``results``; returns that folder.

    What stood for the same experiment before is replaced, whatever its folder is called: names change with defaults.
    """
    experiment = RunFolder(run).experiment()
    known = held(results, older=True) | held(results)
    folder = known.get(key(experiment), results / folder_name(experiment))
    (folder / FILES[-1]).unlink(missing_ok=True)
    for name in FILES:
        if (run / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            part = folder / f"{name}.part"
            shutil.copyfile(run / name, part)
            part.replace(folder / name)
        else:
            (folder / name).unlink(missing_ok=True)  # of a run that stood for this one before
    return folder
