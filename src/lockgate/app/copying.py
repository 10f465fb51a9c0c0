"""Copies of a model: what its newest finished task needs, and nothing of a task that another process is learning."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from lockgate.app.model_dir import Model, ModelFolder, read_model
from lockgate.errors import RunFolderError
from lockgate.runs.checkpoint import Checkpoint


def save_copy(source: Path, target: Path) -> Path:
    """Copy the model in ``source`` to a new folder ``target``, which is there whole or not at all."""
    if target.exists():
        raise RunFolderError(f"{target} exists already; choose another path, or make the model there to begin with.")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        copy_files(read_model(source), ModelFolder(partial))
        os.rename(partial, target)
    except OSError as error:
        raise RunFolderError(
            f"Cannot copy {source} to {target}: {error}. Nothing is left there; make room or choose a folder "
            "you own, then save again."
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def copy_files(model: Model, target: ModelFolder) -> None:
    """Copy what the newest end of a task needs; the records up to it never change, whatever is learnt meanwhile."""
    model.records()  # raises if they are not what they were
    length: int = model.end.manifest()["meta"]["records"]
    shutil.copy(model.folder.config, target.config)
    with model.folder.records.open("rb") as file:
        target.records.write_bytes(file.read(length))
    copied = Checkpoint(target.checkpoints / model.end.path.name)
    shutil.copytree(model.end.path, copied.path)
    copied.manifest()  # raises if files went away meanwhile: two more tasks have ended


def pack(source: Path) -> dict[str, bytes]:
    """The files of such a copy, by their paths inside the model."""
    with tempfile.TemporaryDirectory(prefix="lockgate-") as folder:
        copy_files(read_model(source), ModelFolder(Path(folder)))
        files = sorted(file for file in Path(folder).rglob("*") if file.is_file())
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def unpack(files: dict[str, bytes], target: Path) -> None:
    """Write what ``pack`` found into the new folder ``target``."""
    for name, content in files.items():
        file = target / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
