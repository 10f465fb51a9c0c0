"""Run folders written by hand: three tasks with everything, to be pruned or broken by a test."""

from __future__ import annotations

import json
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


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a run folder; keywords replace keys of the summary."""

    def make(records: list[dict[str, Any]] | None = None, **changes: Any) -> Path:
        folder = tmp_path / "run"
        folder.mkdir(exist_ok=True)
        (folder / "summary.json").write_text(json.dumps(whole_summary() | changes))
        lines = whole_records() if records is None else records
        (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "config.yaml").write_text("method: ccgn\noptim:\n  lr: 0.003\n")
        return folder

    return make
