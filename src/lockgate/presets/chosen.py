"""Settings that `lockgate select` chose: its file is what the preset reads, so that neither can go out of step.

`chosen/BACKBONE/METHOD.yaml` is a file as the command writes it, copied there. Its `settings`, and what of its space
was `fixed` by a flag, are put over the recipe. Another name, `chosen/BACKBONE/icarl-rand.yaml`, is a variant of its
`method`: it counts where somebody asks for the options that were fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockgate.config import leaves, merge
from lockgate.presets import recipe

FOLDER = "chosen"


def chosen_for(method: str, backbone: str, options: Any) -> dict[str, Any]:
    """The settings chosen for a method on a network; ``options`` are those that somebody asks for."""
    asked = dict(leaves(options)) if isinstance(options, Mapping) else {}
    values: dict[str, Any] = {}
    for file in chosen_files(backbone):
        content = recipe.read(file)
        fixed = content.get("fixed", {})
        wanted = {} if file.stem == method else dict(leaves(fixed.get("options", {})))
        if content["method"] == method and wanted.items() <= asked.items():
            values = merge(merge(values, fixed), content["settings"])
    return values


def chosen_files(backbone: str) -> list[Path]:
    """The files of a network; a method's own come before its variants'."""
    known = {folder.name: folder for folder in (recipe.FOLDER / FOLDER).glob("*")}  # it is whatever somebody typed
    files = known[backbone].glob("*.yaml") if backbone in known else ()
    return sorted(files, key=lambda file: (file.stem != recipe.read(file)["method"], file.stem))


def sources() -> list[str]:
    """A line for each file there is: what it chose for whom, on what."""
    lines = []
    for folder in sorted((recipe.FOLDER / FOLDER).glob("*")):
        for file in chosen_files(folder.name):
            content = recipe.read(file)
            scores = ", ".join(f"{name} {score:.4f}" for name, score in content["scores"].items())
            trials, where = content["budget"]["trials"], file.relative_to(recipe.FOLDER)
            lines.append(f"{file.stem} on {folder.name}: the best of {trials} trials ({scores}): {where}")
    return lines
