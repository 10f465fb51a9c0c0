"""Read a run folder: `summary.json`, `records.jsonl`, `config.yaml` and `pictures/`.

Only the keys that every run has are demanded; anything else may be missing or null and is then `None` (or empty).
A number that is not finite is read as `None`: there is nothing to draw or print for it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lockgate.errors import RunFolderError
from lockgate.report.schema import Audit, Epoch, Layer, Macs, MemoryUse, Picture, Row, Run, Scores, Stage, Summary

FORMAT = 1
NEEDED = ("method", "dataset", "seed", "tasks", "seconds", "task_incremental")
NO_EPOCHS = ("dgm",)
"""Methods that train generators, by their own iterations, and nothing else."""
PNG_START, PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"


def read(folder: Path) -> Run:
    """Read a run folder; raises `RunFolderError` if it has no readable summary."""
    path = folder / "summary.json"
    if not path.is_file():
        held = ", ".join(sorted(p.name for p in folder.iterdir())) if folder.is_dir() else "it does not exist"
        raise RunFolderError(
            f"{folder} is not a finished run (got: {held or 'an empty folder'}). Wanted: a folder with a summary.json, "
            "which is written when the last task ends. Remedy: finish the run, or give the folder of another one."
        )
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunFolderError(
            f"{path} is damaged (got: {error}). Wanted: the JSON object that a run writes when it ends. "
            "Remedy: resume the run, which writes it again."
        ) from error
    epochs, stages, generators = _progress(folder / "records.jsonl")
    config = folder / "config.yaml"
    return Run(
        folder=folder,
        summary=parse_summary(given, str(path)),
        epochs=epochs,
        stages=stages,
        generators=generators,
        pictures=tuple(_pictures(folder / "pictures")),
        kept=_picture(folder / "pictures" / "memory.png", 0),
        config=config.read_text(encoding="utf-8", errors="replace") if config.is_file() else None,
    )


def parse_summary(given: Any, where: str = "the summary") -> Summary:
    """Turn the object of a `summary.json` into a `Summary`; `where` is named in the error."""
    if not isinstance(given, Mapping):
        raise _unusable(where, f"a {type(given).__name__}", "a JSON object")
    if given.get("format", FORMAT) != FORMAT:
        raise _unusable(where, f"format {given['format']!r}", f"format {FORMAT}")
    if missing := [key for key in NEEDED if given.get(key) is None]:
        raise _unusable(where, "no " + ", ".join(missing), "the keys " + ", ".join(NEEDED))
    try:
        return _summary(given)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise _unusable(where, f"{type(error).__name__}: {error}", "the fields that a run writes") from error


def _summary(given: Mapping[str, Any]) -> Summary:
    macs, audit, capacity = given.get("macs"), given.get("audit"), given.get("capacity") or {}
    classes, found, memory = given.get("class_incremental"), given.get("task_found"), given.get("memory")
    return Summary(
        method=str(given["method"]),
        dataset=str(given["dataset"]),
        backbone=_text(given.get("backbone")),
        seed=int(given["seed"]),
        tasks=int(given["tasks"]),
        epochs=None if given["method"] in NO_EPOCHS else _whole(given.get("epochs")),
        seconds=float(given["seconds"]),
        task_names=tuple(tuple(map(str, names)) for names in given.get("task_names") or ()),
        task_incremental=_scores(given["task_incremental"]),
        class_incremental=None if classes is None else _scores(classes),
        inference={str(kind): _scores(scores) for kind, scores in (given.get("inference") or {}).items()},
        task_found=() if found is None else _matrix(found),
        memory=None if memory is None else _memory(memory),
        capacity=tuple(map(_layer, capacity.get("layers") or ())),
        gates={str(name): tuple(map(_row, rows)) for name, rows in (given.get("gates") or {}).items()},
        macs=None if macs is None else _macs(macs),
        audit=None if audit is None else _audit(audit),
        environment={str(key): str(value) for key, value in (given.get("environment") or {}).items()},
        command=_text(given.get("command")),
        domain_incremental=None if (domains := given.get("domain_incremental")) is None else _scores(domains),
        held_out=(given.get("scenario") or {}).get("evaluate") == "held_out",
        svm=_number(given.get("svm")),
        unlearnt={int(task): float(right) for task, right in (given.get("unlearnt") or {}).items()},
    )


def _scores(given: Mapping[str, Any]) -> Scores:
    rest = (_number(given.get(key)) for key in ("average", "backward_transfer", "forgetting", "average_incremental"))
    return Scores(_matrix(given["matrix"]), *rest)


def _matrix(given: Any) -> tuple[Row, ...]:
    matrix = tuple(map(_row, given))
    if not matrix or not all(matrix):
        raise ValueError("an accuracy matrix with an empty row or no rows")
    return matrix


def _memory(given: Any) -> MemoryUse:
    return MemoryUse(int(given["images"]), int(given["bytes"]), int(given.get("statistics", 0)))


def _layer(given: Mapping[str, Any]) -> Layer:
    used, relevant = (tuple(map(int, given.get(key) or ())) for key in ("used_after", "relevant"))
    if given["width"] < 1:
        raise ValueError(f"a layer of width {given['width']}")
    return Layer(str(given["layer"]), int(given["width"]), used, relevant)


def _macs(given: Mapping[str, Any]) -> Macs:
    dense, dense_paper = _number(given.get("dense")), _number(given.get("dense_paper"))
    own, own_paper = (_row(given.get(key) or ()) for key in ("task_incremental", "task_incremental_paper"))
    by_task = given.get("by_task") or ()
    widths = tuple((_number(task.get("dense")), _number(task.get("dense_paper"))) for task in by_task)
    return Macs(dense, dense_paper, own, own_paper, widths)


def _audit(given: Mapping[str, Any]) -> Audit:
    # Only a plain `true` passes: an audit that does not say so is no proof.
    counts = (_whole(given.get(key)) for key in ("tensors", "logits", "streams"))
    return Audit(given.get("ok") is True, *counts)


def _epoch(given: Mapping[str, Any]) -> Epoch:
    losses = {str(name): _number(value) for name, value in (given.get("losses") or {}).items()}
    rest = (_number(given.get(key)) for key in ("val_objective", "val_accuracy", "open", "seconds"))
    return Epoch(int(given["task"]), int(given["epoch"]), losses, *rest)


def _stage(given: Mapping[str, Any]) -> Stage:
    return Stage(int(given["task"]), _number(given.get("seconds")), _whole(given.get("best_epoch")))


def _pictures(folder: Path) -> Iterator[Picture]:
    names = (re.fullmatch(r"generator-(\d+)\.png", path.name) for path in folder.glob("*.png"))
    for task, name in sorted((int(name[1]), name[0]) for name in names if name):
        picture = _picture(folder / name, task)
        if picture is not None:
            yield picture


def _picture(path: Path, task: int) -> Picture | None:
    png = path.read_bytes() if path.is_file() else b""
    whole = png.startswith(PNG_START) and png.endswith(PNG_END)  # or else it was torn by a kill in mid-write
    return Picture(task, png) if whole else None


def _progress(path: Path) -> tuple[tuple[Epoch, ...], tuple[Stage, ...], tuple[Epoch, ...]]:
    # A resumed run repeats the epochs after its last checkpoint: the later record of an epoch is the one that counts.
    epochs: dict[tuple[int, int], Epoch] = {}
    generators: dict[tuple[int, int], Epoch] = {}
    stages: dict[int, Stage] = {}
    for number, event in _events(path):
        try:
            if event.get("event") in ("epoch", "generator"):
                epoch = _epoch(event)
                (epochs if event["event"] == "epoch" else generators)[epoch.task, epoch.epoch] = epoch
            elif event.get("event") == "task":
                stage = _stage(event)
                stages[stage.task] = stage
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            got = f"{type(error).__name__}: {error}"
            raise _unusable(f"{path}, line {number}", got, "the fields that a run writes") from error
    return (
        tuple(epochs[key] for key in sorted(epochs)),
        tuple(stages[key] for key in sorted(stages)),
        tuple(generators[key] for key in sorted(generators)),
    )


def _events(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    lines = path.read_text(encoding="utf-8", errors="replace").rstrip("\n").split("\n") if path.is_file() else []
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line or "{}")
        except ValueError as error:
            if number == len(lines):
                return  # torn by a kill in mid-write; a resume writes it again
            raise _unusable(f"{path}, line {number}", str(error), "one JSON object per line") from error
        if not isinstance(event, Mapping):
            raise _unusable(f"{path}, line {number}", f"a {type(event).__name__}", "one JSON object per line")
        yield number, event


def _unusable(where: str, got: str, wanted: str) -> RunFolderError:
    remedy = "Remedy: write it again with this version of Lockgate by resuming the run."
    return RunFolderError(f"{where} cannot be used (got: {got}). Wanted: {wanted}. {remedy}")


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _row(values: Any) -> Row:
    return tuple(map(_number, values))
