"""``lockgate inspect``: what a model knows, what it is made of, and whether its files are whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lockgate.app.model_dir import Model, read_model
from lockgate.app.warn import warnings


def inspect_model(path: Path) -> dict[str, Any]:
    """Everything about the model in ``path``, JSON. Its files were checked against their checksums on the way."""
    model = read_model(path)
    records = model.records()
    last = records[-1]
    probes = [len(kept) for _, kept in model.probes()]
    return {
        "model": str(path),
        "method": model.experiment.method,
        "backbone": model.experiment.backbone,
        "image_shape": list(model.image_shape),
        "tasks": [_task(model, record, count) for record, count in zip(records, probes, strict=True)],
        "class_incremental": last["class_incremental"],
        "capacity": last["capacity"],
        "memory": last["memory"],
        "bytes": _bytes(model, last),
        "audit": last["audit"],
        "warnings": warnings(records, [task.name for task in model.tasks], probes),
        "checkpoint": model.end.path.name,
        "integrity": "every file fits its SHA-256",
    }


def _task(model: Model, record: dict[str, Any], probes: int) -> dict[str, Any]:
    known = model.tasks[record["task"]]
    macs = record["macs"]["by_task"][-1]
    return {
        "name": known.name,
        "classes": list(known.classes),
        "images": sum(known.images),
        "accuracy": record["task_incremental"][-1],
        "class_incremental": record["class_incremental"][-1] if record["class_incremental"] else None,
        "macs": macs["open"] + macs["gates"],
        "dense_macs": macs["dense"],
        "probes": probes,
        "seconds": record["seconds"],
    }


def _bytes(model: Model, last: dict[str, Any]) -> dict[str, int]:
    """Bytes on disk: of the newest state (memory and probes are part of it), and of the whole folder."""
    state = {file.name: file.stat().st_size for file in model.end.path.iterdir()}
    whole = sum(file.stat().st_size for file in model.folder.path.rglob("*") if file.is_file())
    memory = last["memory"]["bytes"] if last["memory"] else 0
    learner, probes = state["learner.safetensors"], state["probes.safetensors"]
    return {"network": learner - memory, "memory": memory, "probes": probes, "folder": whole}
