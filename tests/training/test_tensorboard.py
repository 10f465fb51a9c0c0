"""Records as scalars."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockgate.config import RuntimeConfig
from lockgate.runs.log import read_records
from lockgate.runs.run import run
from lockgate.training.tensorboard import FOLDER, scalars


def test_every_number_of_a_record_has_a_name_and_a_step() -> None:
    epoch = {"event": "epoch", "task": 1, "epoch": 2, "losses": {"class": 0.5}, "val_accuracy": 0.9, "lr": 0.1}
    assert list(scalars(epoch, 10)) == [
        ("task/loss class", 0.5, 12),
        ("task/val_accuracy", 0.9, 12),
        ("task/lr", 0.1, 12),
    ]
    end = {
        "event": "task",
        "task": 1,
        "task_incremental": [0.5, 1.0],
        "class_incremental": None,
        "capacity": [{"layer": "conv1", "used": 7}],
    }
    assert list(scalars(end, 10)) == [
        ("task_incremental/average", 0.75, 2),
        ("task_incremental/task 1", 0.5, 2),
        ("task_incremental/task 2", 1.0, 2),
        ("filters used/conv1", 7, 2),
    ]


def test_a_run_writes_what_tensorboard_reads(tiny, tmp_path: Path) -> None:
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="TensorBoard is not installed: pip install 'lockgate[tensorboard]'",
    )
    experiment = tiny(runtime=RuntimeConfig(threads=1, tensorboard=True), method="ccgn")
    run(experiment, tmp_path / "run")
    tensorboard = events.EventAccumulator(str(tmp_path / "run" / FOLDER))
    tensorboard.Reload()
    found = {
        (name, event.step): event.value for name in tensorboard.Tags()["scalars"] for event in tensorboard.Scalars(name)
    }
    records = read_records(tmp_path / "run" / "records.jsonl")
    wanted = {(name, step): value for record in records for name, value, step in scalars(record, experiment.epochs)}
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert found[key] == pytest.approx(value, rel=1e-6)
