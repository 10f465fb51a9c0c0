"""Run folders written by hand: three tasks with everything, to be pruned or broken by a test."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TASKS, EPOCHS = 3, 4


def whole_summary() -> dict[str, Any]:
    return {
        "format": 1,
        "method": "ccgn",
        "dataset": "digits",
        "backbone": "simple_cnn",
        "seed": 7,
        "tasks": TASKS,
        "epochs": EPOCHS,
        "seconds": 12.34,
        "task_names": [["0", "1"], ["2", "3"], ["4", "5"]],
        "task_incremental": {
            "matrix": [[0.991], [0.991, 0.972], [0.991, 0.972, 0.953]],
            "average": 0.972,
            "backward_transfer": 0.0,
            "forgetting": 0.0,
        },
        "class_incremental": {
            "matrix": [[0.99], [0.812, 0.97], [0.632, 0.754, 0.95]],
            "average": 0.7787,
            "backward_transfer": -0.287,
            "forgetting": 0.287,
        },
        "capacity": {
            "layers": [
                {"layer": "conv1", "width": 100, "used_after": [12, 25, 37], "relevant": [12, 17, 19]},
                {"layer": "conv2", "width": 80, "used_after": [10, 10, 80], "relevant": [10, 9, 74]},
            ]
        },
        "macs": {
            "dense": 22755600,
            "dense_paper": 926100,
            "task_incremental": [2275560.0, 3413340.0, 4551120.0],
            "task_incremental_paper": [111111.0, 122222.0, 133333.0],
        },
        "audit": {"ok": True, "tensors": 123, "logits": 3},
        "environment": {"python": "3.11.2", "torch": "2.4.1", "cpu": "A processor", "threads": 2},
        "command": "lockgate run ccgn --dataset digits --seed 7",
    }


def epoch_record(task: int, epoch: int) -> dict[str, Any]:
    return {
        "event": "epoch",
        "task": task,
        "epoch": epoch,
        "seconds": 1.0,
        "losses": {"class": 1 / (1 + epoch), "sparsity": 0.1 * task},
        "val_objective": 0.5,
        "val_accuracy": 0.8 + 0.05 * epoch,
        "lr": 0.003,
        "open": 0.5,
    }


def whole_records() -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for task in range(TASKS):
        records += [epoch_record(task, epoch) for epoch in range(EPOCHS)]
        records.append({"event": "task", "task": task, "seconds": 4.1, "best_epoch": 2})
    return records


def found_by_itself() -> dict[str, Any]:
    """What the summary of a class-incremental method has besides."""
    argmax = whole_summary()["class_incremental"]
    joint = {
        "matrix": [[0.99], [0.813, 0.97], [0.66, 0.76, 0.945]],
        "average": 0.7883,
        "backward_transfer": -0.27,
        "forgetting": 0.271,
    }
    return {
        "method": "ccgn-episodic",
        "inference": {"argmax": argmax, "joint": joint},
        "task_found": [[1.0], [0.823, 0.981], [0.641, 0.762, 0.961]],
        "memory": {"images": 500, "bytes": 500 * 784},
        "audit": {"ok": True, "tensors": 123, "logits": 3, "streams": 9, "broken": []},
    }


def generator_record(task: int, epoch: int) -> dict[str, Any]:
    losses = {"critic": -8.0 / (1 + epoch), "penalty": 0.5, "generator": 3.0}
    return {"event": "generator", "task": task, "epoch": epoch, "lr": 1e-4, "losses": losses, "seconds": 30.0}


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress((b"\0" + b"\x80" * width) * height))
    return b"\x89PNG\r\n\x1a\n" + header + pixels + chunk(b"IEND", b"")


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a run folder; keywords replace keys of the summary."""

    def make(records: list[dict[str, Any]] | None = None, name: str = "run", **changes: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "summary.json").write_text(json.dumps(whole_summary() | changes))
        lines = whole_records() if records is None else records
        (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "config.yaml").write_text("method: ccgn\noptim:\n  lr: 0.003\n")
        return folder

    return make


@pytest.fixture
def make_episodic(make_run: Callable[..., Path]) -> Callable[..., Path]:
    """Write the folder of a run that finds the task by itself and keeps images."""
    return lambda records=None, **changes: make_run(records, **(found_by_itself() | changes))


@pytest.fixture
def make_generative(make_episodic: Callable[..., Path]) -> Callable[..., Path]:
    """The same with a generator for each task, and the pictures these leave behind."""

    def make(**changes: Any) -> Path:
        records = []
        for task in range(TASKS):
            records += [generator_record(task, epoch) for epoch in range(5)]
            records += [record for record in whole_records() if record["task"] == task]
        given = {"method": "ccgn-generative", "memory": {"images": 0, "bytes": 33 * 2**20}} | changes
        folder = make_episodic(records, **given)
        (folder / "pictures").mkdir(exist_ok=True)
        for task in range(TASKS):
            (folder / "pictures" / f"generator-{task}.png").write_bytes(_png(64 + task, 32))
        return folder

    return make
