"""Checkpoints: atomic, checksummed, safe to load.

    checkpoints/000007-task/   learner.safetensors  manifest.json                      a task has ended
    checkpoints/000008-fit/    learner.safetensors  best.safetensors  optimiser.pt  manifest.json    inside a task

A checkpoint is written into a hidden folder and renamed into place, so it is there whole or not at all. The manifest
holds the SHA-256 of every file. Inside a task, only what the task can change is written: the rest stands in the end of
the task before. Tensors are safetensors; the optimiser's state is read with ``weights_only=True``:
nothing that is loaded can run code. The one before the newest is kept, and so are the last two ends of a task.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import pickle
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load as from_bytes
from safetensors.torch import load_file
from safetensors.torch import save as as_bytes

from lockgate.errors import CheckpointError
from lockgate.runs.packing import packed, unpacked
from lockgate.types import State

FORMAT = 6
READABLE = (2, 3, 4, 5, FORMAT)
"""Formats 2 and 3 are of 0.1 (``legacy.py``); 2 wrote the whole learner inside a task too. Up to 4 wrote zeros,
and 5 what is left of a tensor as two (``packing.py``)."""
Kind = Literal["task", "fit"]
WAYS_BACK = {
    "config.yaml": (("task", "fit"), "resume", ["--previous"]),
    "model.yaml": (("task",), "undo", []),
}
"""By the file that says what a folder is: the checkpoints that it can go back to, and the command that does so."""
HELD = "learner.safetensors"
"""The file that is in memory from when it is checked until it is used."""
PARTIAL = ".partial"
"""How the name of a checkpoint ends that is not written whole."""


@dataclass(frozen=True)
class Checkpoint:
    """One complete checkpoint on disk."""

    path: Path

    @property
    def number(self) -> int:
        """Its place in the sequence."""
        return int(self.path.name.split("-")[0])

    @property
    def kind(self) -> str:
        """``task`` or ``fit``."""
        return self.path.name.split("-")[1]

    def manifest(self) -> dict[str, Any]:
        """The manifest, after checking every file against it: once, for as long as this object lives."""
        return self._checked

    def claims(self) -> dict[str, Any]:
        """What the manifest says, with no file checked but itself."""
        return _read_manifest(self.path / "manifest.json")

    @functools.cached_property
    def _held(self) -> dict[str, bytes]:
        """Bytes of files that were checked and not used yet."""
        return {}

    @functools.cached_property
    def _checked(self) -> dict[str, Any]:
        manifest = _read_manifest(self.path / "manifest.json")
        for name, expected in manifest["files"].items():
            file = self.path / name
            if not file.is_file():
                raise _damaged(file, "the file is missing")
            if name == HELD:  # what was checked is what will be used, whatever becomes of the file
                data = self._held[name] = file.read_bytes()
                found = hashlib.sha256(data).hexdigest()
            else:
                found = _sha256(file)
            if found != expected:
                raise _damaged(file, f"SHA-256 is {found[:16]}…, the manifest says {expected[:16]}…")
        return manifest

    def tensors(self, name: str) -> State | None:
        """The tensors of ``name``.safetensors, or None if there are none."""
        file = self.path / f"{name}.safetensors"
        if file.name not in self._held and not file.exists():
            return None
        data = self._held.pop(file.name, None)  # once used it is needed no more
        return unpacked(load_file(file) if data is None else from_bytes(data))

    def optimiser(self) -> dict[str, Any] | None:
        """The optimiser's state, or None."""
        file = self.path / "optimiser.pt"
        if not file.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(file, weights_only=True, map_location="cpu")
        except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
            raise _damaged(file, "it holds something that cannot be loaded safely") from error
        return state


def found(folder: Path) -> list[Checkpoint]:
    """All complete checkpoints of a run, oldest first."""
    if not folder.is_dir():
        return []
    complete = [Checkpoint(p) for p in folder.iterdir() if p.is_dir() and re.fullmatch(r"\d{6,}-(task|fit)", p.name)]
    return sorted(complete, key=lambda c: c.number)


def newest_end(folder: Path) -> Checkpoint | None:
    """The newest end of a task."""
    ends = [point for point in found(folder) if point.kind == "task"]
    return ends[-1] if ends else None


def save(
    folder: Path, kind: Kind, meta: dict[str, Any], states: dict[str, State], optimiser: dict[str, Any] | None = None
) -> Checkpoint:
    """Write a checkpoint whole, then drop the ones no longer needed."""
    folder.mkdir(parents=True, exist_ok=True)
    earlier = found(folder)
    name = f"{(earlier[-1].number if earlier else 0) + 1:06d}-{kind}"
    drop_partial(folder)
    temporary = folder / f".{name}{PARTIAL}"
    temporary.mkdir()
    try:
        _write(temporary, kind, meta, states, optimiser)
        os.rename(temporary, folder / name)
    except OSError:  # a full disk, most likely: give back what was taken
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync(folder)
    _prune(folder)
    return Checkpoint(folder / name)


def drop(point: Checkpoint) -> None:
    """Remove a checkpoint; killed meanwhile, it is there whole or counts no more."""
    hidden = point.path.with_name(f".{point.path.name}{PARTIAL}")
    shutil.rmtree(hidden, ignore_errors=True)
    os.rename(point.path, hidden)
    shutil.rmtree(hidden)


def drop_partial(folder: Path) -> None:
    """Remove what processes that were killed while writing have left."""
    for left in folder.glob(f".*{PARTIAL}"):
        shutil.rmtree(left)


def _write(
    folder: Path, kind: Kind, meta: dict[str, Any], states: dict[str, State], optimiser: dict[str, Any] | None
) -> None:
    """All files of a checkpoint. Written by Python, not by libraries: whatever goes wrong is an OSError."""
    for name, state in states.items():
        tensors = {key: value.detach().cpu().contiguous() for key, value in packed(state).items()}
        (folder / f"{name}.safetensors").write_bytes(as_bytes(tensors))
    if optimiser is not None:
        held = io.BytesIO()
        torch.save(optimiser, held)
        (folder / "optimiser.pt").write_bytes(held.getbuffer())
    files = {file.name: _sha256(file) for file in sorted(folder.iterdir())}
    manifest: dict[str, Any] = {"format": FORMAT, "kind": kind, "files": files, "meta": meta}
    manifest["self"] = _digest(manifest)
    (folder / "manifest.json").write_bytes(_as_text(manifest).encode())
    for file in folder.iterdir():
        _sync(file)


def _prune(folder: Path) -> None:
    """Keep the last two checkpoints and the last two ends of a task."""
    everything = found(folder)
    kept = everything[-2:] + [c for c in everything if c.kind == "task"][-2:]
    for checkpoint in everything:
        if checkpoint not in kept:
            shutil.rmtree(checkpoint.path)


def _read_manifest(file: Path) -> dict[str, Any]:
    try:
        text = file.read_bytes().decode()  # not read_text: it makes one kind of line end of another
        manifest = json.loads(text)
        seal = manifest.pop("self")
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise _damaged(file, f"not a manifest ({error})") from error
    # The text too: white space, or the last digit of a number, can change without changing a value.
    whole = {**manifest, "self": seal}
    if seal != _digest(manifest) or (text != _as_text(whole) and text != json.dumps(whole, indent=1)):
        raise _damaged(file, "its own checksum does not fit")
    if manifest["format"] not in READABLE:
        readable = f"{', '.join(map(str, READABLE[:-1]))} and {FORMAT}"
        raise CheckpointError(
            f"{file} has format {manifest['format']}; this version of Lockgate reads {readable}. "
            "Use the version that wrote it."
        )
    return dict(manifest)


def _as_text(manifest: dict[str, Any]) -> str:
    """A line for each key: a line for each value, as until 19 November 2026, takes Python half of opening a model."""
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in manifest.items()) + "\n}"


def _damaged(file: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"Checkpoint file {file} is damaged: {what}. Nothing was changed. Restore the file from a copy"
        f"{_way_back(file.parents[2], file.parent.name)}."
    )


def _way_back(home: Path, name: str) -> str:
    """The command that gives up the checkpoint ``name``, where there is one before it to go back to."""
    before = [point for point in found(home / "checkpoints") if point.path.name < name]
    for config, (kinds, command, flags) in WAYS_BACK.items():
        if (home / config).is_file() and any(point.kind in kinds for point in before):
            words = shlex.join(["lockgate", command, str(home), *flags])
            return f", or go back to the one before it with `{words}`"
    return ""


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
