"""``lockgate undo``: a model as it was before its last task. The way back also when its newest files are damaged."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockgate.app.model_dir import ModelFolder, require_model
from lockgate.errors import CheckpointError
from lockgate.runs import checkpoint
from lockgate.runs.checkpoint import Checkpoint
from lockgate.runs.log import cut_records


@dataclass(frozen=True)
class Undo:
    """What going back would come to: looked up before anything is changed."""

    path: Path
    removed: str
    """The task that goes, in words."""
    tasks: tuple[str, ...]
    """Names of the tasks that stay."""
    drops: tuple[Checkpoint, ...]
    target: Checkpoint | None
    """The end of a task that the model goes back to; None: before the first."""

    def question(self) -> str:
        """What is about to happen, in words."""
        left = "nothing, and the folder is removed" if self.target is None else ", ".join(map(repr, self.tasks))
        return f"This removes {self.removed} from {self.path}, for good. What stays: {left}."

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"model": str(self.path), "removed": self.removed, "tasks": list(self.tasks)}


def look_back(path: Path) -> Undo:
    """What undoing the last task of the model in ``path`` would remove; raises if there is no way back."""
    require_model(path)
    folder = ModelFolder(path)
    points = checkpoint.found(folder.checkpoints)
    ends = [point for point in points if point.kind == "task"]
    before, last = (ends[-2] if len(ends) > 1 else None), (ends[-1] if ends else None)
    names, claimed = _names(before), _names(last)
    if last is not None and before is None and (claimed is None or len(claimed) > 1):
        raise CheckpointError(
            f"{path} keeps nothing from before its last task{'' if claimed is None else f' {claimed[-1]!r}'}: a model "
            "can go back by one task, and once more when it has learnt another. Restore an older copy of the folder."
        )
    if before is not None:
        before.manifest()  # raises if it is damaged: there is no going back to that
    removed = _removed(last, claimed, stopped=bool(points) and points[-1].kind == "fit")
    drops = tuple(point for point in points if before is None or point.number > before.number)
    return Undo(path, removed, tuple(names or ()), drops, before)


def undo(path: Path, expected: Undo | None = None) -> Undo:
    """Make the model in ``path`` what it was before its last task; killed at any instant, it is one or the other.

    ``expected`` is what the user agreed to: refused if something else has changed the model since.
    """
    require_model(path)
    folder = ModelFolder(path)
    with folder.lock():
        found = look_back(path)
        if expected is not None and found != expected:
            raise CheckpointError(f"{path} has changed since you were asked: nothing was removed. Look again.")
        for point in reversed(found.drops):
            checkpoint.drop(point)
        if found.target is None:
            shutil.rmtree(path.resolve())
        else:
            cut_records(folder.records, found.target.manifest()["meta"])
    return found


def _names(point: Checkpoint | None) -> list[str] | None:
    """Names of the tasks that an end of a task claims to know; None: there is none, or its manifest is damaged."""
    try:
        return None if point is None else [task["name"] for task in point.claims()["meta"]["model"]["tasks"]]
    except CheckpointError:
        return None


def _removed(last: Checkpoint | None, claimed: list[str] | None, stopped: bool) -> str:
    if last is None:
        return "the first task, which was stopped before its end"
    name = "the last task (its name cannot be read)" if claimed is None else f"the task {claimed[-1]!r}"
    return f"{name}, and another that was stopped before its end" if stopped else name
